package sqlitestore

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/outboxrelay/outbox"
)

// countBound is where counting ends in depths.sql.
const countBound = 100_000

// Depths counts the messages by state, up to 100,000 of each; see outbox.Inspector.
func (s *Store) Depths(ctx context.Context) (d outbox.Depths, err error) {
	err = s.read(ctx, func(t *tx) error {
		d, _, err = t.depths()
		return err
	})
	if err != nil {
		return outbox.Depths{}, s.explain("inspect", err)
	}
	return d, nil
}

// Status looks at the outbox; see outbox.Inspector. Its Schema is the prefix of the tables, its Database the file.
func (s *Store) Status(ctx context.Context) (st outbox.Status, err error) {
	st.Schema = strings.TrimSuffix(s.cfg.Prefix, "_")
	var first, second sample
	if err := s.read(ctx, func(t *tx) error { return t.status(&st, &first) }); err != nil {
		return outbox.Status{}, s.explain("inspect", err)
	}
	select {
	case <-ctx.Done():
		return outbox.Status{}, fmt.Errorf("inspect: %w", context.Cause(ctx))
	case <-time.After(sampleInterval):
	}
	if err := s.read(ctx, second.read); err != nil {
		return outbox.Status{}, s.explain("inspect", err)
	}
	st.InPerSecond, st.OutPerSecond = first.rates(second)
	return st, nil
}

// Relays lists the registered relays; see outbox.Inspector.
func (s *Store) Relays(ctx context.Context) (list []outbox.RelayStatus, err error) {
	err = s.read(ctx, func(t *tx) error {
		list, err = t.relays()
		return err
	})
	if err != nil {
		return nil, s.explain("inspect", err)
	}
	return list, nil
}

func (t *tx) status(st *outbox.Status, first *sample) (err error) {
	var ready, due sql.NullInt64
	if err := t.row("status", []any{t.now}, &st.Database, &st.SchemaVersion, &ready, &due); err != nil {
		return err
	}
	st.At = timeOf(t.now)
	for _, since := range []sql.NullInt64{ready, due} {
		if since.Valid {
			st.OldestEligible = max(st.OldestEligible, duration(t.now-since.Int64))
		}
	}
	if st.Depths, st.DeadLastHour, err = t.depths(); err != nil {
		return err
	}
	if st.Relays, err = t.relays(); err != nil {
		return err
	}
	for _, r := range st.Relays {
		addLanes(&st.Destinations, &r)
	}
	sortDestinations(st.Destinations)
	f, err := t.fleet()
	if err != nil {
		return err
	}
	st.Pauses = f.pauses
	if err := t.heldKeys(st, &f); err != nil {
		return err
	}
	if err := t.unhandled(st, &f); err != nil {
		return err
	}
	if err := t.stranded(st, &f); err != nil {
		return err
	}
	return first.read(t)
}

func addLanes(list *[]outbox.DestinationStatus, r *outbox.RelayStatus) {
	for _, l := range r.Lanes {
		d := destination(list, l.Destination)
		d.InFlight += l.InFlight
		if r.Live {
			d.Add(l.Fault)
		}
	}
}

func (t *tx) depths() (d outbox.Depths, deadLastHour int64, err error) {
	var ready, waiting, retrying, due, dead, heldReady, heldWaiting, heldRetrying int64
	if err := t.row("depths", []any{t.now}, &ready, &waiting, &retrying, &due, &dead, &deadLastHour); err != nil {
		return d, 0, err
	}
	if err := t.row("depths_held", nil, &heldReady, &heldWaiting, &heldRetrying); err != nil {
		return d, 0, err
	}
	d.InFlight = heldReady + heldWaiting
	d.Ready = counted(ready, heldReady, ready > countBound)
	d.Retrying = counted(retrying, heldRetrying, waiting > countBound)
	d.Scheduled = counted(waiting-retrying-due, 0, waiting > countBound)
	d.Ready.Messages += counted(due, heldWaiting-heldRetrying, false).Messages
	d.Ready.AtLeast = d.Ready.AtLeast || due > 0 && waiting > countBound
	d.Dead = counted(dead, 0, dead > countBound)
	return d, deadLastHour, nil
}

func counted(n, held int64, atLeast bool) outbox.Depth {
	return outbox.Depth{Messages: max(min(n, countBound)-held, 0), AtLeast: atLeast}
}

// sampleInterval is the time between the two samples of a rate.
const sampleInterval = time.Second

// sample is what rates are made of.
type sample struct{ at, published, gone int64 }

func (sm *sample) read(t *tx) error { return t.row("sample", nil, &sm.at, &sm.published, &sm.gone) }

func (sm sample) rates(later sample) (in, out float64) {
	seconds := duration(later.at - sm.at).Seconds()
	if seconds <= 0 {
		return 0, 0
	}
	return float64(later.published-sm.published) / seconds, float64(later.gone-sm.gone) / seconds
}

func (t *tx) relays() (list []outbox.RelayStatus, err error) {
	err = t.rows("relays", nil, func(rows *sql.Rows) error {
		var r outbox.RelayStatus
		var id, lanes, counters, inFlight string
		var started, seen, until int64
		err := rows.Scan(&id, &r.Host, &r.PID, &r.Version, &r.Engine, &r.Settings, &started, &seen, &until, &lanes, &counters, &inFlight)
		if err != nil {
			return err
		}
		if r.ID, err = outbox.ParseID(id); err != nil {
			return err
		}
		r.Live, r.StartedAt, r.Seen, r.LeaseLeft = until > t.now, timeOf(started), duration(max(t.now-seen, 0)), duration(until-t.now)
		if err := json.Unmarshal([]byte(counters), &r.Counters); err != nil {
			return fmt.Errorf("counters of relay %s: %w", id, err)
		}
		list = append(list, r)
		return setLanes(&list[len(list)-1], lanes, inFlight)
	})
	return list, err
}

func setLanes(r *outbox.RelayStatus, lanesText, inFlightText string) error {
	var lanes map[string]laneDoc
	if err := json.Unmarshal([]byte(lanesText), &lanes); err != nil {
		return fmt.Errorf("lanes of relay %s: %w", r.ID, err)
	}
	var inFlight map[string]int64
	if err := json.Unmarshal([]byte(inFlightText), &inFlight); err != nil {
		return fmt.Errorf("claims of relay %s: %w", r.ID, err)
	}
	for name, l := range lanes {
		r.Lanes = append(r.Lanes, outbox.RelayLane{Destination: name, Topics: l.Topics, InFlight: inFlight[name], Fault: (*outbox.Fault)(l.Fault)})
		r.InFlight += inFlight[name]
	}
	slices.SortFunc(r.Lanes, func(a, b outbox.RelayLane) int { return cmp.Compare(a.Destination, b.Destination) })
	return nil
}

// heldKeys counts the keys that a message holds which failed or is dead.
func (t *tx) heldKeys(st *outbox.Status, f *fleet) error {
	keys := map[string]bool{}
	err := t.rows("status_keys", nil, func(rows *sql.Rows) error {
		var key, topic, destination string
		var at int64
		err := rows.Scan(&key, &topic, &destination, &at)
		if err == nil && f.mayHoldAt(topic, destination) {
			keys[key] = true
			st.HeldLongest = max(st.HeldLongest, duration(t.now-at))
		}
		return err
	})
	st.HeldKeys = outbox.Depth{Messages: int64(len(keys)), AtLeast: len(keys) > countBound}
	return err
}

// unhandled are the topics of ready messages that no live relay takes.
func (t *tx) unhandled(st *outbox.Status, f *fleet) error {
	return t.rows("status_topics", nil, func(rows *sql.Rows) error {
		var d outbox.TopicDepth
		err := rows.Scan(&d.Topic, &d.Messages, &d.AtLeast)
		if err == nil && len(f.destinations(d.Topic)) == 0 {
			st.Unhandled = append(st.Unhandled, d)
		}
		return err
	})
}
