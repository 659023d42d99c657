package pgstore

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outboxrelay/outbox"
)

// relay is what the store remembers of a relay that it registered: where its lanes' windows stand, what its
// claims hold, and the connection of its heartbeat.
type relay struct {
	streams *atomic.Bool // the stream brings new messages

	mu    sync.Mutex
	lanes map[string]*lane
	held  map[outbox.ClaimRef]*heldClaim

	// By the monotonic clock, since the machine's may be set.
	born   time.Time
	silent atomic.Int64 // nanoseconds after that the relay is over, without another heartbeat; 0: none was sent yet

	beat      sync.Mutex // held during a heartbeat
	conn      *pgx.Conn  // of the heartbeat
	ahead     sightings  // at the last heartbeat
	forgotten bool       // makes no connection any more
}

// silentLeases is after how many leases without a heartbeat a relay is forgotten.
const silentLeases = 3

// heldClaim is a claim between Claim and the settlement of its last message.
type heldClaim struct {
	lane       *lane
	deliveries []*outbox.Delivery // in publish order
	left       int                // not settled yet
}

func newRelay(streams *atomic.Bool) *relay {
	return &relay{born: time.Now(), streams: streams, lanes: map[string]*lane{}, held: map[outbox.ClaimRef]*heldClaim{}}
}

// lane returns the lane of a destination, made when it is first asked for.
func (r *relay) lane(destination string) *lane {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.lanes[destination] == nil {
		l := newLane()
		if r.streams.Load() {
			l.streamBegins()
		}
		r.lanes[destination] = l
	}
	return r.lanes[destination]
}

func (r *relay) hold(l *lane, claims []outbox.Claim) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range claims {
		r.held[c.Ref] = &heldClaim{lane: l, deliveries: c.Deliveries, left: len(c.Deliveries)}
	}
}

// whole reports whether that many messages are all that is left of a claim.
func (r *relay) whole(claim outbox.ClaimRef, messages int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	held := r.held[claim]
	return held != nil && held.left == messages
}

// freesForOthers reports whether settling a message of the claim may free a key for another relay's lane.
func (r *relay) freesForOthers(claim outbox.ClaimRef) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	held := r.held[claim]
	return held != nil && held.lane.isMixed()
}

// settled counts settled messages of a claim off, and continues their keys at once.
func (r *relay) settled(o outbox.Outcome) {
	r.mu.Lock()
	defer r.mu.Unlock()
	held := r.held[o.Claim]
	if held == nil {
		return
	}
	if held.left--; held.left == 0 {
		delete(r.held, o.Claim)
	}
	i, found := slices.BinarySearchFunc(held.deliveries, o.Seq, func(d *outbox.Delivery, seq int64) int {
		return int(d.Seq - seq)
	})
	if found && held.deliveries[i].Key != "" {
		held.lane.release(held.deliveries[i].Key)
	}
}

// connect returns the heartbeat's connection.
func (r *relay) connect(ctx context.Context, s *Store) (*pgx.Conn, error) {
	if r.conn != nil && !r.conn.IsClosed() {
		return r.conn, nil
	}
	conn, err := s.connect(ctx)
	if err != nil {
		return nil, fmt.Errorf("connect for the heartbeat: %w", err)
	}
	r.conn = conn
	return conn, nil
}

// disconnect closes the heartbeat's connection for good.
func (r *relay) disconnect() {
	r.beat.Lock()
	defer r.beat.Unlock()
	r.forgotten = true
	r.hangUp()
}

func (r *relay) hangUp() {
	if r.conn == nil {
		return
	}
	const patience = time.Second
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	_ = r.conn.Close(ctx)
	r.conn = nil
}

func (s *Store) relay(id outbox.ID) *relay {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.relays[id]
}

func (s *Store) register(id outbox.ID) *relay {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.relays[id] == nil {
		s.relays[id] = newRelay(&s.stream.live)
	}
	return s.relays[id]
}

// forget drops what is remembered of a relay that has stopped or lost its lease. Its settlements still find
// their claims in the database.
func (s *Store) forget(id outbox.ID) {
	s.mu.Lock()
	r := s.relays[id]
	delete(s.relays, id)
	s.mu.Unlock()
	s.lanesMade.Add(1)
	if r != nil {
		r.hangUp()
	}
}

// forgetSilent drops the relays that send no heartbeats any more. One whose lease has ended by its own clock begins again under
// another id and says nothing of the old one, whose connection and lanes would stay for ever (TestSilentRelayIsForgotten).
func (s *Store) forgetSilent(now time.Time) {
	var silent []*relay
	s.mu.Lock()
	for id, r := range s.relays {
		if after := time.Duration(r.silent.Load()); after != 0 && now.Sub(r.born) > after {
			silent = append(silent, r)
			delete(s.relays, id)
		}
	}
	s.mu.Unlock()
	if len(silent) > 0 {
		s.lanesMade.Add(1)
	}
	for _, r := range silent {
		r.disconnect()
	}
}
