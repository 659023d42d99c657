package pgstore

import (
	"cmp"
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outboxrelay/outbox"
	"github.com/outboxrelay/outbox/internal/interval"
)

var (
	//go:embed queries/depths.sql
	depthsSQL string
	//go:embed queries/status.sql
	statusSQL string
	//go:embed queries/status_sample.sql
	statusSampleSQL string
	//go:embed queries/status_topics.sql
	statusTopicsSQL string
	//go:embed queries/status_horizon.sql
	statusHorizonSQL string
	//go:embed queries/status_keys.sql
	statusKeysSQL string
	//go:embed queries/relays.sql
	relaysSQL string
)

// countBound is where counting ends in depths.sql.
const countBound = 100_000

// sampleInterval is the time between the two samples of a rate.
const sampleInterval = time.Second

var (
	_ outbox.Inspector = (*Store)(nil)
	_ outbox.Archivist = (*Store)(nil)
	_ outbox.Catalog   = (*Store)(nil)
)

// Depths counts the messages by state; see outbox.Inspector. Ready ones are counted up to 100,000 and above that
// estimated by the statistics' running count of rows, the others are "at least" above that.
func (s *Store) Depths(ctx context.Context) (d outbox.Depths, err error) {
	err = s.inspect(ctx, func(tx pgx.Tx) error {
		d, _, err = s.depths(ctx, tx)
		return err
	})
	return d, err
}

// Status looks at the outbox; see outbox.Inspector.
func (s *Store) Status(ctx context.Context) (st outbox.Status, err error) {
	var first, second sample
	err = s.inspect(ctx, func(tx pgx.Tx) error { return s.look(ctx, tx, &st, &first) })
	if err != nil {
		return outbox.Status{}, err
	}
	select {
	case <-ctx.Done():
		return outbox.Status{}, fmt.Errorf("inspect: %w", context.Cause(ctx))
	case <-time.After(sampleInterval):
	}
	err = s.inspect(ctx, func(tx pgx.Tx) error { return second.read(ctx, tx, s.cfg.Schema) })
	st.InPerSecond, st.OutPerSecond = first.rates(second)
	return st, err
}

// Relays lists the registered relays; see outbox.Inspector.
func (s *Store) Relays(ctx context.Context) (list []outbox.RelayStatus, err error) {
	err = s.inspect(ctx, func(tx pgx.Tx) error {
		list, err = s.relayList(ctx, tx)
		return err
	})
	return list, err
}

// inspect runs queries in a transaction of their own with deadlines, which writes nothing.
func (s *Store) inspect(ctx context.Context, fn func(tx pgx.Tx) error) error {
	options := pgx.TxOptions{IsoLevel: pgx.ReadCommitted, AccessMode: pgx.ReadOnly}
	err := pgx.BeginTxFunc(ctx, s.pool, options, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, s.sql.deadlines.sql, pgx.QueryExecModeExec, inspectDeadline, lockDeadline); err != nil {
			return err
		}
		return fn(tx)
	})
	if err != nil {
		return s.explain("inspect", err)
	}
	return nil
}

// inspectDeadline bounds one query; all are made to take milliseconds.
const inspectDeadline = "5s"

func (s *Store) look(ctx context.Context, tx pgx.Tx, st *outbox.Status, first *sample) (err error) {
	st.Schema = s.cfg.Schema
	var oldest int64
	err = s.queryRow(ctx, tx, statusSQL).Scan(&st.Database, &st.SchemaVersion, &st.At, &oldest)
	if err != nil {
		return err
	}
	st.OldestEligible = micros(oldest)
	if err := first.read(ctx, tx, s.cfg.Schema); err != nil {
		return err
	}
	if st.Depths, st.DeadLastHour, err = s.depths(ctx, tx); err != nil {
		return err
	}
	if st.Relays, err = s.relayList(ctx, tx); err != nil {
		return err
	}
	st.Destinations = destinations(st.Relays)
	if err = s.heldKeys(ctx, tx, st); err != nil {
		return err
	}
	if st.Pauses, err = s.pauses(ctx, tx); err != nil {
		return err
	}
	if st.Unhandled, err = s.unhandled(ctx, tx, st.Relays); err != nil {
		return err
	}
	if st.Horizon, err = readHorizon(ctx, tx, s.cfg.HorizonPatience); err != nil {
		return err
	}
	return s.stranded(ctx, tx, st)
}

func (s *Store) queryRow(ctx context.Context, tx pgx.Tx, sql string) pgx.Row {
	return tx.QueryRow(ctx, render(sql, s.cfg.Schema), pgx.QueryExecModeExec)
}

func micros(n int64) time.Duration { return time.Duration(n) * time.Microsecond }

func (s *Store) depths(ctx context.Context, tx pgx.Tx) (d outbox.Depths, deadLastHour int64, err error) {
	var counted, waiting, due, estimate, age int64
	err = s.queryRow(ctx, tx, depthsSQL).Scan(&counted, &d.Ready.Messages, &d.InFlight, &waiting, &due, &d.Retrying.Messages,
		&d.Scheduled.Messages, &d.Dead.Messages, &deadLastHour, &estimate, &age)
	if counted > countBound {
		d.Ready = estimateDepth(estimate, micros(age))
	}
	d.Ready.Messages += due
	d.Ready.AtLeast = d.Ready.AtLeast || waiting > countBound && due > 0 && !d.Ready.Estimated
	d.Retrying.AtLeast, d.Scheduled.AtLeast = waiting > countBound, waiting > countBound
	if d.Dead.Messages > countBound {
		d.Dead = outbox.Depth{Messages: countBound, AtLeast: true}
	}
	return d, deadLastHour, err
}

// estimateDepth believes the running count when it is not refuted by the rows that were counted.
func estimateDepth(estimate int64, age time.Duration) outbox.Depth {
	if estimate <= countBound {
		return outbox.Depth{Messages: countBound, AtLeast: true}
	}
	return outbox.Depth{Messages: estimate, Estimated: true, Age: age}
}

// sample is what rates are made of.
type sample struct{ at, published, left int64 }

func (sm *sample) read(ctx context.Context, tx pgx.Tx, schema string) error {
	return tx.QueryRow(ctx, render(statusSampleSQL, schema), pgx.QueryExecModeExec).Scan(&sm.at, &sm.published, &sm.left)
}

// rates are per second; a count that went backwards was reset.
func (sm sample) rates(later sample) (in, out float64) {
	seconds := micros(later.at - sm.at).Seconds()
	if seconds <= 0 {
		return 0, 0
	}
	return float64(max(later.published-sm.published, 0)) / seconds, float64(max(later.left-sm.left, 0)) / seconds
}

func (s *Store) relayList(ctx context.Context, tx pgx.Tx) ([]outbox.RelayStatus, error) {
	rows, err := tx.Query(ctx, render(relaysSQL, s.cfg.Schema), pgx.QueryExecModeExec)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, scanRelay)
}

func scanRelay(row pgx.CollectableRow) (r outbox.RelayStatus, err error) {
	var seen, left int64
	var lanes, faults, counters, inFlight string
	err = row.Scan(&r.ID, &r.Host, &r.PID, &r.Version, &r.Engine, &r.Streaming, &r.StreamProblem, &r.Settings, &r.Live, &r.StartedAt, &seen, &left, &lanes, &faults, &counters, &inFlight)
	if err != nil {
		return r, err
	}
	r.Seen, r.LeaseLeft = micros(seen), micros(left)
	if err := json.Unmarshal([]byte(counters), &r.Counters); err != nil {
		return r, fmt.Errorf("counters of relay %s: %w", r.ID, err)
	}
	return r, setLanes(&r, lanes, faults, inFlight)
}

func setLanes(r *outbox.RelayStatus, lanesText, faultsText, inFlightText string) error {
	var lanes map[string]struct {
		Topics outbox.TopicSet `json:"topics"`
	}
	if err := json.Unmarshal([]byte(lanesText), &lanes); err != nil {
		return fmt.Errorf("destinations of relay %s: %w", r.ID, err)
	}
	var faults map[string]*laneFault
	if err := json.Unmarshal([]byte(faultsText), &faults); err != nil {
		return fmt.Errorf("faults of relay %s: %w", r.ID, err)
	}
	if refusal := faults[archiveFault]; refusal != nil {
		r.ArchiveRefusal = refusal.Reason
	}
	var inFlight map[string]int64
	if err := json.Unmarshal([]byte(inFlightText), &inFlight); err != nil {
		return fmt.Errorf("claims of relay %s: %w", r.ID, err)
	}
	for name, l := range lanes {
		r.Lanes = append(r.Lanes, outbox.RelayLane{Destination: name, Topics: l.Topics, InFlight: inFlight[name], Fault: (*outbox.Fault)(faults[name])})
		r.InFlight += inFlight[name]
	}
	slices.SortFunc(r.Lanes, func(a, b outbox.RelayLane) int { return cmp.Compare(a.Destination, b.Destination) })
	return nil
}

// destinations adds the live relays' lanes up.
func destinations(relays []outbox.RelayStatus) (list []outbox.DestinationStatus) {
	for _, r := range relays {
		for _, l := range r.Lanes {
			i := slices.IndexFunc(list, func(d outbox.DestinationStatus) bool { return d.Name == l.Destination })
			if i < 0 {
				i = len(list)
				list = append(list, outbox.DestinationStatus{Name: l.Destination})
			}
			list[i].InFlight += l.InFlight
			if r.Live {
				list[i].Add(l.Fault)
			}
		}
	}
	slices.SortFunc(list, func(a, b outbox.DestinationStatus) int { return cmp.Compare(a.Name, b.Name) })
	return list
}

// unhandled are the topics of ready messages that no live relay takes.
func (s *Store) unhandled(ctx context.Context, tx pgx.Tx, relays []outbox.RelayStatus) ([]outbox.TopicDepth, error) {
	rows, err := tx.Query(ctx, render(statusTopicsSQL, s.cfg.Schema), pgx.QueryExecModeExec)
	if err != nil {
		return nil, err
	}
	topics, err := pgx.CollectRows(rows, pgx.RowToStructByPos[outbox.TopicDepth])
	return slices.DeleteFunc(topics, func(t outbox.TopicDepth) bool { return handled(relays, t.Topic) }), err
}

func handled(relays []outbox.RelayStatus, topic string) bool {
	return slices.ContainsFunc(relays, func(r outbox.RelayStatus) bool {
		return r.Live && slices.ContainsFunc(r.Lanes, func(l outbox.RelayLane) bool { return l.Topics.Contains(topic) })
	})
}

const (
	// DefaultHorizonPatience is that of a Config that leaves it out.
	DefaultHorizonPatience = 5 * time.Minute

	minHorizonPatience = time.Second
	maxHorizonPatience = 30 * 24 * time.Hour
)

// readHorizon finds what has held vacuum up for longer than patience.
func readHorizon(ctx context.Context, tx pgx.Tx, patience time.Duration) (*outbox.HorizonHolder, error) {
	rows, err := tx.Query(ctx, statusHorizonSQL, pgx.QueryExecModeExec, interval.Text(patience))
	if err != nil {
		return nil, err
	}
	holders, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (h *outbox.HorizonHolder, err error) {
		var age int64
		h = &outbox.HorizonHolder{}
		err = row.Scan(&h.Kind, &h.Name, &age, &h.Text)
		h.Age = micros(age)
		return h, err
	})
	if err != nil || len(holders) == 0 {
		return nil, err
	}
	return holders[0], nil
}
