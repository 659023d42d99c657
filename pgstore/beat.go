package pgstore

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outboxrelay/outbox"
)

// Beat registers a relay or extends its lease, on a connection of its own; see outbox.Store.
func (s *Store) Beat(ctx context.Context, info outbox.RelayInfo, known []outbox.Token) (outbox.Orders, error) {
	defer s.forgetSilent(time.Now())
	registers := info.Beat == 0 && !info.Stopping
	r := s.relay(info.ID)
	if registers {
		r = s.register(info.ID)
		s.learnLanes(r, info.Lanes)
	}
	if r == nil {
		return outbox.Orders{}, fmt.Errorf("heartbeat of relay %s: %w", info.ID, outbox.ErrLeaseLost)
	}
	r.silent.Store(int64(time.Since(r.born) + silentLeases*info.Lease))
	r.beat.Lock()
	defer r.beat.Unlock()
	if r.forgotten {
		return outbox.Orders{}, fmt.Errorf("heartbeat of relay %s: %w", info.ID, outbox.ErrLeaseLost)
	}
	orders, alive, err := s.beat(ctx, r, info, known)
	if err != nil {
		r.hangUp()
		return outbox.Orders{}, s.explain("heartbeat", err)
	}
	if !alive || info.Stopping {
		s.forget(info.ID)
	}
	if !alive {
		return outbox.Orders{}, fmt.Errorf("heartbeat of relay %s: %w", info.ID, outbox.ErrLeaseLost)
	}
	return orders, nil
}

func (s *Store) beat(ctx context.Context, r *relay, info outbox.RelayInfo, known []outbox.Token) (orders outbox.Orders, alive bool, err error) {
	conn, err := r.connect(ctx, s)
	if err != nil {
		return orders, false, err
	}
	args, err := s.beatArgs(r, info, known)
	if err != nil {
		return orders, false, err
	}
	sent := time.Now()
	calls := []call{{s.sql.beat, args, func(rows pgx.Rows) error {
		var now int64
		var ahead []byte
		if err := rows.Scan(&alive, &ahead, &now); err != nil {
			return err
		}
		orders.Now = time.UnixMicro(now)
		s.clock.see(orders.Now, time.Since(sent))
		r.ahead, err = r.ahead.see(ahead, time.Now())
		return err
	}}}
	if info.Beat == 0 {
		calls = append(calls, call{s.sql.holders, []any{info.ID}, holders(&orders)})
	}
	return orders, alive, exchange(ctx, conn, s.transaction(calls...))[0]
}

func (s *Store) beatArgs(r *relay, info outbox.RelayInfo, known []outbox.Token) ([]any, error) {
	type laneTopics struct {
		Topics    outbox.TopicSet `json:"topics"`
		Unordered outbox.TopicSet `json:"unordered"`
	}
	lanes := make(map[string]laneTopics, len(info.Lanes))
	faults := map[string]laneFault{}
	for _, l := range info.Lanes {
		lanes[l.Destination] = laneTopics{orEmpty(l.Topics), orEmpty(l.Unordered)}
		if l.Fault != nil {
			faults[l.Destination] = laneFault(*l.Fault)
		}
	}
	if refusal := s.archiveRefusal(); refusal != nil {
		faults[archiveFault] = *refusal
	}
	lanesJSON, err := json.Marshal(lanes)
	if err != nil {
		return nil, fmt.Errorf("encode lanes: %w", err)
	}
	faultsJSON, err := json.Marshal(faults)
	if err != nil {
		return nil, fmt.Errorf("encode faults: %w", err)
	}
	counters, err := json.Marshal(info.Counters)
	if err != nil {
		return nil, fmt.Errorf("encode counters: %w", err)
	}
	if info.Counters == nil {
		counters = []byte("{}")
	}
	lapsed, err := r.ahead.lapsed(time.Now())
	if err != nil {
		return nil, err
	}
	streaming, stream := s.stream.report()
	return []any{info.ID, info.Beat, info.Lease, orEmpty(known), info.Stopping, string(counters), string(faultsJSON), lapsed,
		s.cfg.Notify != NotifyOff, info.Host, info.PID, info.Version, s.cfg.Engine.String(), string(lanesJSON), s.settings(info.Settings), info.Samples,
		streaming, stream}, nil
}

// laneFault is an outbox.Fault as it is stored.
type laneFault struct {
	Misconfigured bool   `json:"misconfigured"`
	Reason        string `json:"reason"`
}

// archiveFault is the name of the archive among a relay's faults: no destination has it.
const archiveFault = ""

func holders(orders *outbox.Orders) func(pgx.Rows) error {
	return func(rows pgx.Rows) error {
		var h outbox.Holder
		var seen, left int64
		if err := rows.Scan(&h.Relay, &h.Host, &h.PID, &h.Messages, &seen, &left); err != nil {
			return err
		}
		h.Seen, h.LeaseLeft = time.Duration(seen)*time.Microsecond, time.Duration(left)*time.Microsecond
		orders.Holders = append(orders.Holders, h)
		return nil
	}
}
