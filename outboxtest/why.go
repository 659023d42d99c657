package outboxtest

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/outboxrelay/outbox"
)

// Keys lists what holds keys, the longest held first.
func (s *Store) Keys(ctx context.Context, limit int) (outbox.Keys, error) {
	if err := ctx.Err(); err != nil {
		return outbox.Keys{}, err
	}
	if limit = cmp.Or(limit, 100); limit < 1 || limit > 1000 {
		return outbox.Keys{}, &outbox.FieldError{Field: "limit", Value: fmt.Sprint(limit), Bound: "must be 1 to 1000"}
	}
	b := s.box
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.now()
	keys := outbox.Keys{Pauses: slices.Clone(b.pauses)}
	heads := map[string]bool{}
	for _, r := range b.sorted() {
		if r.Key == "" || heads[r.Key] || !r.holdsKey() || !b.mayHold(r) {
			continue
		}
		heads[r.Key] = true
		if h, ok := b.hold(r, now); ok {
			keys.Holds = append(keys.Holds, h)
		}
	}
	slices.SortStableFunc(keys.Holds, func(a, b outbox.KeyHold) int { return cmp.Compare(b.Age, a.Age) })
	if len(keys.Holds) > limit {
		keys.Holds, keys.More = keys.Holds[:limit], true
	}
	return keys, nil
}

// mayHold reports whether some live relay delivers the message in order, or none lives.
func (b *box) mayHold(r *row) bool {
	return b.liveRelays() == 0 || slices.ContainsFunc(b.destinationsOf(r), func(d string) bool { return b.isOrdered(r.Topic, d) })
}

// destinationsOf are those that live relays would deliver a message to.
func (b *box) destinationsOf(r *row) []string {
	return slices.DeleteFunc(b.destinations(r.Topic), func(d string) bool { return r.destination != "" && r.destination != d })
}

// liveRelays counts the relays whose lease lasts.
func (b *box) liveRelays() (n int) {
	for _, r := range b.relays {
		if !b.rules.lapsed(r, b.now()) {
			n++
		}
	}
	return n
}

// destinations are those that live relays deliver a topic to.
func (b *box) destinations(topic string) []string {
	names := map[string]bool{}
	for _, r := range b.relays {
		for _, l := range r.info.Lanes {
			if !b.rules.lapsed(r, b.now()) && l.Topics.Contains(topic) {
				names[l.Destination] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(names))
}

// destinationStates are the destinations as the live relays see them.
func (b *box) destinationStates(now time.Time) (list []outbox.DestinationStatus) {
	for _, r := range b.relays {
		for _, l := range r.info.Lanes {
			if b.rules.lapsed(r, now) {
				continue
			}
			i := slices.IndexFunc(list, func(d outbox.DestinationStatus) bool { return d.Name == l.Destination })
			if i < 0 {
				i = len(list)
				list = append(list, outbox.DestinationStatus{Name: l.Destination})
			}
			list[i].Add(l.Fault)
		}
	}
	slices.SortFunc(list, func(a, b outbox.DestinationStatus) int { return cmp.Compare(a.Name, b.Name) })
	return list
}

// hold says how the first message of a key holds it; one that is to be delivered in its turn does not.
func (b *box) hold(r *row, now time.Time) (outbox.KeyHold, bool) {
	h := outbox.KeyHold{Key: r.Key, Topic: r.Topic, ID: r.ID, Seq: r.seq, Attempts: r.attempts, Lapses: b.lapsesOf(r, now), Class: r.class, Text: r.text,
		Age: now.Sub(r.publishedAt)}
	switch paused := slices.ContainsFunc(b.destinationsOf(r), func(d string) bool { return b.isPaused(r.Topic, d) }); {
	case r.state == dead:
		h.State, h.Age = outbox.HoldParked, now.Sub(r.diedAt)
	case b.isHeldLive(r, now):
		h.State, h.Destination, h.Age = outbox.HoldInFlight, r.claim.destination, now.Sub(r.claim.at)
		info := b.relays[r.claim.relay].info
		h.Relay = fmt.Sprintf("%s/%d", info.Host, info.PID)
		if h.Age < 5*time.Second && r.state == ready {
			return h, false
		}
	case paused:
		h.State = outbox.HoldPaused
	case r.claim != nil:
		h.State, h.Destination, h.Age = outbox.HoldLost, r.claim.destination, now.Sub(r.claim.at)
	case r.state == ready:
		return h, false
	case r.isDue(now):
		h.State = outbox.HoldDue
	default:
		h.State, h.NextTry = outbox.HoldRetrying, r.availableAt.Sub(now)
	}
	h.Behind, _ = b.around(r)
	return h, true
}

// lapsesOf is how many relays have died with the message.
func (b *box) lapsesOf(r *row, now time.Time) int {
	if b.isHeldLive(r, now) {
		return r.claim.lapses
	}
	return r.lapses()
}

// around counts the ready messages of the row's key behind and before it.
func (b *box) around(r *row) (behind, before outbox.Depth) {
	for _, o := range b.rows {
		switch {
		case o.Key != r.Key || o.state != ready:
		case o.seq > r.seq:
			behind.Messages++
		case o.seq < r.seq:
			before.Messages++
		}
	}
	return behind, before
}

// Why explains why a message, or the first message of a key, is not delivered.
func (s *Store) Why(ctx context.Context, q outbox.WhyQuery) (outbox.Why, error) {
	if err := ctx.Err(); err != nil {
		return outbox.Why{}, err
	}
	if err := q.Check(); err != nil {
		return outbox.Why{}, err
	}
	b := s.box
	b.mu.Lock()
	defer b.mu.Unlock()
	w := outbox.Why{Query: q, Pauses: slices.Clone(b.pauses)}
	now := b.now()
	w.LiveRelays = b.liveRelays()
	w.Destinations = b.destinationStates(now)
	subject := b.subject(&w)
	if subject == nil {
		w.Ended = b.lastEnd(q.ID)
		return w, nil
	}
	w.Message = b.messageState(subject, now)
	if subject.Key == "" {
		return w, nil
	}
	w.Younger, w.Older = b.around(subject)
	for _, r := range b.sorted() {
		if r.Key == subject.Key && r.seq < subject.seq && r.holdsKey() && b.sharesOrder(r, subject) {
			w.Head = b.messageState(r, now)
			break
		}
	}
	return w, nil
}

// subject is the message that is asked about; nil: there is none. Of a key it is the first one that holds it, else the first one,
// whoever delivers it; its dead messages that do not hold it are counted.
func (b *box) subject(w *outbox.Why) (subject *row) {
	var first *row
	for _, r := range b.sorted() {
		switch {
		case w.Query.Key == "" && r.ID == w.Query.ID:
			return r
		case w.Query.Key == "" || r.Key != w.Query.Key:
		case r.state == dead && !r.holds:
			w.Dead.Messages++
		case !r.holdsKey():
		case first == nil && b.mayHold(r):
			first = r
		case subject == nil:
			subject = r
		}
	}
	return cmp.Or(first, subject)
}

// lastEnd is how a message has ended the last time, if it is kept.
func (b *box) lastEnd(id outbox.ID) (m *outbox.MessageInfo) {
	for _, a := range b.archive {
		if a.Message.ID == id && (m == nil || a.Generation > m.Generation) {
			m = &outbox.MessageInfo{Message: outbox.Message{ID: id, Topic: a.Message.Topic}, State: a.State, Generation: a.Generation,
				Destination: a.Destination, EndedAt: a.EndedAt, Text: a.Detail, Actor: a.Actor}
		}
	}
	return m
}

// sharesOrder reports whether two messages go to a destination in order.
func (b *box) sharesOrder(one, other *row) bool {
	return b.liveRelays() == 0 || slices.ContainsFunc(b.destinationsOf(one), func(d string) bool {
		return slices.Contains(b.destinationsOf(other), d) && b.isOrdered(one.Topic, d) && b.isOrdered(other.Topic, d)
	})
}

func (b *box) messageState(r *row, now time.Time) *outbox.MessageState {
	m := &outbox.MessageState{ID: r.ID, Seq: r.seq, Topic: r.Topic, Key: r.Key, State: [...]string{"ready", "waiting", "dead"}[r.state],
		Attempts: r.attempts, Lapses: b.lapsesOf(r, now), Generation: r.generation, Class: r.class, Text: r.text, PublishedAt: r.publishedAt,
		Holds: r.Key != "" && r.holdsKey() && b.mayHold(r), Destination: r.destination, Destinations: b.destinationsOf(r)}
	switch r.state {
	case waiting:
		m.Due = r.availableAt.Sub(now)
	case dead:
		m.Died = now.Sub(r.diedAt)
	}
	if r.claim != nil {
		m.Holder = &outbox.ClaimState{Destination: r.claim.destination, Claimed: now.Sub(r.claim.at), Live: b.isHeldLive(r, now)}
		if holder := b.relays[r.claim.relay]; holder != nil {
			m.Holder.Host, m.Holder.PID = holder.info.Host, holder.info.PID
		}
	}
	return m
}
