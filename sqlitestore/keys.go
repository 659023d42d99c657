package sqlitestore

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/outboxrelay/outbox"
)

// Keys lists what holds keys; see outbox.Operator. It looks at the 2,000 keys that are held longest among 10,000
// messages of each kind, and for paused topics at the oldest 10,000 ready messages.
func (s *Store) Keys(ctx context.Context, limit int) (keys outbox.Keys, err error) {
	if limit = cmp.Or(limit, 100); limit < 1 || limit > 1000 {
		return keys, refuse("limit", fmt.Sprint(limit), "must be 1 to 1000")
	}
	err = s.read(ctx, func(t *tx) error {
		f, err := t.fleet()
		if err != nil {
			return err
		}
		keys.Pauses = f.pauses
		keys.Holds, err = t.holds(&f)
		return err
	})
	if err != nil {
		return outbox.Keys{}, s.explain("keys", err)
	}
	if len(keys.Holds) > limit {
		keys.Holds, keys.More = keys.Holds[:limit], true
	}
	return keys, nil
}

// holds are the held keys, the longest first.
func (t *tx) holds(f *fleet) (holds []outbox.KeyHold, err error) {
	names, err := t.maybeHeld(f)
	if err != nil {
		return nil, err
	}
	ordered, err := t.topicsWhere(f.mayHold)
	if err != nil {
		return nil, err
	}
	topics := array(ordered)
	for _, key := range names {
		m, err := t.message("state_of_key", key, int64(math.MaxInt64), topics, f.names())
		if err != nil {
			return nil, err
		}
		if m == nil {
			continue
		}
		h, held, err := t.hold(m, f)
		if err != nil {
			return nil, err
		}
		if held {
			holds = append(holds, h)
		}
	}
	slices.SortStableFunc(holds, func(a, b outbox.KeyHold) int { return cmp.Compare(b.Age, a.Age) })
	return holds, nil
}

// maybeHeld are the keys to look at.
func (t *tx) maybeHeld(f *fleet) (keys []string, err error) {
	seen := map[string]bool{}
	note := func(key string) {
		if !seen[key] {
			seen[key] = true
			keys = append(keys, key)
		}
	}
	err = t.rows("key_holders", []any{t.now}, func(rows *sql.Rows) error {
		var key string
		var at int64
		err := rows.Scan(&key, &at)
		note(key)
		return err
	})
	if err != nil || len(f.pauses) == 0 {
		return keys, err
	}
	err = t.rows("front", nil, func(rows *sql.Rows) error {
		var key, topic string
		err := rows.Scan(&key, &topic)
		if f.isPaused(topic) {
			note(key)
		}
		return err
	})
	return keys, err
}

// briefly is how long a relay may have a message for the first time without holding its key up.
const briefly = 5 * time.Second

// hold says how the first message of a key holds it; one that is to be delivered in its turn does not.
func (t *tx) hold(m *message, f *fleet) (h outbox.KeyHold, holds bool, err error) {
	h = outbox.KeyHold{Key: m.key, Topic: m.topic, ID: m.id, Seq: m.seq, Attempts: m.attempts, Lapses: m.lapses, Class: m.class, Text: m.text}
	h.State, h.Age = m.since(t, f)
	switch h.State {
	case "":
		return h, false, nil
	case outbox.HoldInFlight:
		if h.Age < briefly && m.where == "ready" {
			return h, false, nil
		}
		h.Destination, h.Relay = m.holder.Destination, fmt.Sprintf("%s/%d", m.holder.Host, m.holder.PID)
	case outbox.HoldLost:
		h.Destination = m.holder.Destination
	case outbox.HoldRetrying:
		h.NextTry = duration(m.due - t.now)
	}
	const bound = 1000
	h.Behind, err = t.depth("behind", bound, m.key, m.seq)
	return h, true, err
}
