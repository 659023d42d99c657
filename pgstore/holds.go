package pgstore

import (
	"context"
	_ "embed"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/outboxrelay/outbox"
)

var (
	//go:embed queries/plan_settings.sql
	planSettingsSQL string
	//go:embed queries/keys.sql
	keysSQL string
	//go:embed queries/pauses.sql
	pausesSQL string
	//go:embed queries/locate.sql
	locateSQL string
	//go:embed queries/message_state.sql
	messageStateSQL string
	//go:embed queries/key_head.sql
	keyHeadSQL string
	//go:embed queries/dead_of_key.sql
	deadOfKeySQL string
	//go:embed queries/ended.sql
	endedSQL string
	//go:embed queries/operation_rate.sql
	operationRateSQL string
)

const (
	defaultKeys = 100
	maxKeys     = 1000
	behindBound = 10_000  // where counting ends in key_head.sql
	behindAll   = 100_000 // where it ends in keys.sql, for all keys together …
	behindOne   = 1_000   // … and for each
)

// Keys lists what holds keys; see outbox.Operator. It looks at up to 100,000 waiting and dead messages each, and at the
// oldest 10,000 ready ones for paused topics.
func (s *Store) Keys(ctx context.Context, limit int) (keys outbox.Keys, err error) {
	if limit == 0 {
		limit = defaultKeys
	}
	if limit < 1 || limit > maxKeys {
		return keys, refuse("limit", fmt.Sprint(limit), fmt.Sprintf("must be 1 to %d", maxKeys))
	}
	bound := min(behindAll/int64(limit), behindOne)
	err = s.probe(ctx, func(tx pgx.Tx) error {
		if keys.Pauses, err = s.pauses(ctx, tx); err != nil {
			return err
		}
		rows, err := tx.Query(ctx, render(keysSQL, s.cfg.Schema), pgx.QueryExecModeExec, limit+1, bound)
		if err != nil {
			return err
		}
		keys.Holds, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (outbox.KeyHold, error) { return scanHold(row, bound) })
		return err
	})
	if len(keys.Holds) > limit {
		keys.Holds, keys.More = keys.Holds[:limit], true
	}
	return keys, err
}

// probe is inspect with the planner's settings of the claim: these queries go by indexes, whatever the statistics say.
func (s *Store) probe(ctx context.Context, fn func(tx pgx.Tx) error) error {
	return s.inspect(ctx, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, render(planSettingsSQL, s.cfg.Schema), pgx.QueryExecModeExec); err != nil {
			return err
		}
		return fn(tx)
	})
}

func scanHold(row pgx.CollectableRow, bound int64) (h outbox.KeyHold, err error) {
	var next, age, behind int64
	var host string
	var pid int
	err = row.Scan(&h.Key, (*string)(&h.State), &h.Topic, &h.ID, &h.Seq, &h.Attempts, &h.Lapses, &h.Class, &h.Text, &next, &age,
		&h.Destination, &host, &pid, &behind)
	if h.State == outbox.HoldRetrying {
		h.NextTry = max(micros(next), 0)
	}
	if host != "" {
		h.Relay = fmt.Sprintf("%s/%d", host, pid)
	}
	h.Age, h.Behind = micros(age), bounded(behind, bound)
	return h, err
}

// bounded is a count that ended above the bound.
func bounded(n, bound int64) outbox.Depth {
	return outbox.Depth{Messages: min(n, bound), AtLeast: n > bound}
}

func (s *Store) pauses(ctx context.Context, tx pgx.Tx) ([]outbox.Pause, error) {
	rows, err := tx.Query(ctx, render(pausesSQL, s.cfg.Schema), pgx.QueryExecModeExec)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (p outbox.Pause, err error) {
		var scope, name string
		if err = row.Scan(&scope, &name, &p.Actor, &p.Reason, &p.At); scope == "topic" {
			p.Topic = name
		} else {
			p.Destination = name
		}
		return p, err
	})
}

func (s *Store) heldKeys(ctx context.Context, tx pgx.Tx, st *outbox.Status) error {
	var keys, rows, longest int64
	err := s.queryRow(ctx, tx, statusKeysSQL).Scan(&keys, &rows, &longest)
	st.HeldKeys, st.HeldLongest = outbox.Depth{Messages: keys, AtLeast: rows > countBound}, micros(longest)
	return err
}

// Why explains why a message, or the first message of a key, is not delivered; see outbox.Operator.
func (s *Store) Why(ctx context.Context, q outbox.WhyQuery) (w outbox.Why, err error) {
	if err := q.Check(); err != nil {
		return w, err
	}
	w.Query = q
	err = s.probe(ctx, func(tx pgx.Tx) error { return s.why(ctx, tx, &w) })
	return w, err
}

func (s *Store) why(ctx context.Context, tx pgx.Tx, w *outbox.Why) error {
	relays, err := s.relayList(ctx, tx)
	if err != nil {
		return err
	}
	for _, r := range relays {
		if r.Live {
			w.LiveRelays++
		}
	}
	w.Destinations = destinations(relays)
	if w.Query.Key != "" {
		if w.Dead, err = s.deadOfKey(ctx, tx, w.Query.Key); err != nil {
			return err
		}
	}
	seq, err := s.subject(ctx, tx, w.Query)
	if err != nil {
		return err
	}
	if seq == nil {
		w.Ended, err = s.ended(ctx, tx, w.Query.ID)
		return err
	}
	if w.Message, err = s.messageState(ctx, tx, *seq); err != nil || w.Message == nil {
		return err
	}
	if w.Message.Key != "" {
		var topic *string
		if w.Query.Key == "" || len(w.Message.Destinations) > 0 || w.Message.Destination != "" {
			topic = &w.Message.Topic
		}
		head, older, younger, err := s.keyHead(ctx, tx, w.Message.Key, *seq, topic, w.Message.Destination, false)
		if err != nil {
			return err
		}
		w.Older, w.Younger = bounded(older, behindBound), bounded(younger, behindBound)
		if head != nil {
			if w.Head, err = s.messageState(ctx, tx, *head); err != nil {
				return err
			}
		}
	}
	w.Pauses, err = s.pauses(ctx, tx)
	return err
}

// subject is the seq of the message that is asked about; nil: there is none.
func (s *Store) subject(ctx context.Context, tx pgx.Tx, q outbox.WhyQuery) (*int64, error) {
	if q.Key != "" {
		const last = 1<<63 - 1
		head, _, _, err := s.keyHead(ctx, tx, q.Key, last, nil, "", false)
		if err == nil && head == nil {
			head, _, _, err = s.keyHead(ctx, tx, q.Key, last, nil, "", true)
		}
		return head, err
	}
	rows, err := tx.Query(ctx, render(locateSQL, s.cfg.Schema), pgx.QueryExecModeExec, q.ID)
	if err != nil {
		return nil, err
	}
	found, err := pgx.CollectRows(rows, pgx.RowTo[int64])
	if err != nil || len(found) == 0 {
		return nil, err
	}
	return &found[0], nil
}

// keyHead is the first message that holds a key before a seq: for one of this topic, nil for any, that is bound to a destination, ""
// for none; or, whatever it is, the first of the key.
func (s *Store) keyHead(ctx context.Context, tx pgx.Tx, key string, seq int64, topic *string, destination string, whatever bool) (head *int64, older, younger int64, err error) {
	row := tx.QueryRow(ctx, render(keyHeadSQL, s.cfg.Schema), pgx.QueryExecModeExec, key, seq, topic, optional(destination), whatever)
	err = row.Scan(&head, &older, &younger)
	return head, older, younger, err
}

// deadOfKey counts the dead messages of a key that do not hold it.
func (s *Store) deadOfKey(ctx context.Context, tx pgx.Tx, key string) (outbox.Depth, error) {
	var n int64
	err := tx.QueryRow(ctx, render(deadOfKeySQL, s.cfg.Schema), pgx.QueryExecModeExec, key, behindBound).Scan(&n)
	return bounded(n, behindBound), err
}

// ended is how a message has ended the last time, if it is kept.
func (s *Store) ended(ctx context.Context, tx pgx.Tx, id outbox.ID) (*outbox.MessageInfo, error) {
	if id.IsZero() {
		return nil, nil
	}
	m := &outbox.MessageInfo{Message: outbox.Message{ID: id}}
	err := tx.QueryRow(ctx, render(endedSQL, s.cfg.Schema), pgx.QueryExecModeExec, id).Scan(&m.Message.Topic, (*string)(&m.State), &m.Destination,
		&m.Actor, &m.Text, &m.EndedAt)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil
	}
	return m, err
}

func (s *Store) messageState(ctx context.Context, tx pgx.Tx, seq int64) (*outbox.MessageState, error) {
	rows, err := tx.Query(ctx, render(messageStateSQL, s.cfg.Schema), pgx.QueryExecModeExec, seq)
	if err != nil {
		return nil, err
	}
	found, err := pgx.CollectRows(rows, scanMessageState)
	if err != nil || len(found) == 0 {
		return nil, err
	}
	return found[0], nil
}

func scanMessageState(row pgx.CollectableRow) (*outbox.MessageState, error) {
	m := &outbox.MessageState{}
	var due, died int64
	var destination, host *string
	var claimed *int64
	var live *bool
	var pid *int
	err := row.Scan(&m.ID, &m.Seq, &m.Topic, &m.Key, &m.State, &m.Attempts, &m.Lapses, &m.Generation, &m.Class, &m.Text, &m.PublishedAt,
		&due, &died, &m.Holds, &destination, &claimed, &live, &host, &pid, &m.Destination, &m.Destinations)
	m.Due, m.Died = micros(due), micros(died)
	if destination != nil && claimed != nil {
		m.Holder = &outbox.ClaimState{Destination: *destination, Claimed: micros(*claimed)}
		if live != nil && host != nil && pid != nil {
			m.Holder.Live, m.Holder.Host, m.Holder.PID = *live, *host, *pid
		}
	}
	return m, err
}
