package sqlitestore

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/outboxrelay/outbox"
)

// Why explains why a message, or the first message of a key, is not delivered; see outbox.Operator.
func (s *Store) Why(ctx context.Context, q outbox.WhyQuery) (w outbox.Why, err error) {
	if err := q.Check(); err != nil {
		return w, err
	}
	err = s.read(ctx, func(t *tx) error {
		w, err = t.why(q)
		return err
	})
	if err != nil {
		return outbox.Why{}, s.explain("why", err)
	}
	return w, nil
}

// aroundBound is where counting a key's other messages ends.
const aroundBound = 10_000

func (t *tx) why(q outbox.WhyQuery) (w outbox.Why, err error) {
	f, err := t.fleet()
	if err != nil {
		return w, err
	}
	w = outbox.Why{Query: q, Pauses: f.pauses, LiveRelays: len(f.relays), Destinations: f.states()}
	var m *message
	if q.Key != "" {
		m, err = t.first(q.Key, &f, &w)
	} else {
		m, err = t.message("state_by_id", q.ID.String())
	}
	if err == nil && m == nil && q.Key == "" {
		w.Ended, err = t.ended(q.ID)
	}
	if err != nil || m == nil {
		return w, err
	}
	w.Message = m.state(t, &f)
	if m.key == "" {
		return w, nil
	}
	if w.Younger, err = t.depth("behind", aroundBound, m.key, m.seq); err != nil {
		return w, err
	}
	if w.Older, err = t.depth("before", aroundBound, m.key, m.seq); err != nil {
		return w, err
	}
	var shared any // nil: nobody knows
	destinations := f.destinationsOf(m.topic, m.destination)
	if len(f.relays) > 0 {
		shared = array(destinations)
	}
	head, err := t.head(m.key, m.seq, shared, func(topic string) bool { return f.sharesOrder(topic, m.topic, destinations) })
	if head != nil {
		w.Head = head.state(t, &f)
	}
	return w, err
}

// first is the first message of a key that holds it, else the first one, whoever delivers it; nil: there is none. The dead ones that
// do not hold the key are counted.
func (t *tx) first(key string, f *fleet, w *outbox.Why) (m *message, err error) {
	if w.Dead, err = t.depth("dead_of_key", aroundBound, key); err != nil {
		return nil, err
	}
	if m, err = t.head(key, math.MaxInt64, f.names(), f.mayHold); err != nil || m != nil {
		return m, err
	}
	return t.head(key, math.MaxInt64, nil, func(string) bool { return true })
}

// head is the first message that holds the key before a seq, among some topics, and of those that are bound among some
// destinations, nil for all; nil if there is none.
func (t *tx) head(key string, before int64, destinations any, in func(topic string) bool) (*message, error) {
	topics, err := t.topicsWhere(in)
	if err != nil {
		return nil, err
	}
	return t.message("state_of_key", key, before, array(topics), destinations)
}

// ended is how a message has ended the last time, if it is kept.
func (t *tx) ended(id outbox.ID) (*outbox.MessageInfo, error) {
	m := &outbox.MessageInfo{Message: outbox.Message{ID: id}}
	var at int64
	err := t.row("ended", []any{id.String()}, &m.Message.Topic, &m.State, &m.Destination, &m.Actor, &m.Text, &at)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	m.EndedAt = timeOf(at)
	return m, err
}

// depth counts up to a bound; the query's last argument is a limit.
func (t *tx) depth(query string, bound int64, args ...any) (d outbox.Depth, err error) {
	err = t.row(query, append(args, bound+1), &d.Messages)
	if d.Messages > bound {
		d = outbox.Depth{Messages: bound, AtLeast: true}
	}
	return d, err
}

// message is where a message is and who lists it.
type message struct {
	where                   string
	seq                     int64
	id                      outbox.ID
	topic, key, class, text string
	holds                   bool
	attempts, lapses        int
	generation              int
	published, due, at      int64
	destination             string // that it is bound to
	holder                  *holder
}

type holder struct {
	Destination string `json:"destination"`
	ClaimedAt   int64  `json:"claimed_at"`
	Live        int    `json:"live"`
	Host        string `json:"host"`
	PID         int    `json:"pid"`
}

// message reads one; nil if there is none.
func (t *tx) message(query string, args ...any) (*message, error) {
	m := &message{}
	var id string
	var held sql.NullString
	err := t.row(query, args, &m.where, &m.seq, &id, &m.topic, &m.key, &m.holds, &m.attempts, &m.lapses, &m.generation, &m.class, &m.text,
		&m.published, &m.due, &m.at, &m.destination, &held)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if m.id, err = outbox.ParseID(id); err != nil {
		return nil, fmt.Errorf("message %d: %w", m.seq, err)
	}
	if held.Valid {
		m.holder = &holder{}
		err = json.Unmarshal([]byte(held.String), m.holder)
	}
	return m, err
}

// isLive reports whether a live relay holds the message.
func (m *message) isLive() bool { return m.holder != nil && m.holder.Live != 0 }

func (m *message) state(t *tx, f *fleet) *outbox.MessageState {
	st := &outbox.MessageState{ID: m.id, Seq: m.seq, Topic: m.topic, Key: m.key, State: m.where, Attempts: m.attempts, Lapses: m.lapses,
		Generation: m.generation, Class: m.class, Text: m.text, PublishedAt: timeOf(m.published), Holds: m.holds && f.mayHoldAt(m.topic, m.destination),
		Destination: m.destination, Destinations: f.destinationsOf(m.topic, m.destination)}
	switch m.where {
	case "waiting":
		st.Due = duration(m.due - t.now)
	case "dead":
		st.Died = duration(t.now - m.at)
	}
	if h := m.holder; h != nil {
		st.Holder = &outbox.ClaimState{Destination: h.Destination, Claimed: duration(t.now - h.ClaimedAt), Live: h.Live != 0, Host: h.Host, PID: h.PID}
	}
	return st
}

// since is for how long the message holds its key, and how.
func (m *message) since(t *tx, f *fleet) (outbox.HoldState, time.Duration) {
	switch {
	case m.where == "dead":
		return outbox.HoldParked, duration(t.now - m.at)
	case m.isLive():
		return outbox.HoldInFlight, duration(t.now - m.holder.ClaimedAt)
	case f.isPaused(m.topic):
		return outbox.HoldPaused, duration(t.now - m.at)
	case m.holder != nil:
		return outbox.HoldLost, duration(t.now - m.holder.ClaimedAt)
	case m.where == "ready":
		return "", 0 // to be delivered in its turn
	case m.due <= t.now:
		return outbox.HoldDue, duration(t.now - m.at)
	}
	return outbox.HoldRetrying, duration(t.now - m.at)
}
