package history

import "fmt"

// Options say what the system under test promises.
type Options struct {
	// Order is the policy of each topic. Nil: Skip for all.
	Order func(topic string) Order
	// Undrained: the relays were not given the time to deliver everything, so nothing counts as lost.
	Undrained bool
	// SettleLoss is how long before it is disturbed the database may forget settlements, in nanoseconds: with
	// asynchronous settles a crash brings back what was settled within that time.
	SettleLoss int64
}

// Check finds what in the history breaks a promise. The events may be in any order; those with the same time
// stay in theirs.
func Check(events []Event, o Options) Report {
	events = append([]Event(nil), events...)
	sortByTime(events)
	c := &checker{book: newBook(events), Options: o}
	for _, m := range c.order {
		c.published(m)
		c.existence(m)
		c.content(m)
		c.duplicates(m)
		c.settlements(m)
		c.surrendered(m)
		c.revived(m)
		c.spent(m)
		if !o.Undrained {
			c.lost(m)
		}
	}
	for _, g := range c.groups() {
		c.concurrent(g)
		if g.ordered {
			c.overtaken(g)
		}
	}
	return Report{Counts: c.counts, Violations: c.violations}
}

type checker struct {
	*book
	Options
	violations []Violation
}

func (c *checker) report(kind ViolationKind, proof []*Event, format string, args ...any) {
	v := Violation{Kind: kind, Text: fmt.Sprintf(format, args...)}
	for _, e := range proof {
		if e != nil {
			v.Events = append(v.Events, *e)
		}
	}
	c.violations = append(c.violations, v)
}

// claimed is when the delivery's claim was requested; its beginning if that was not logged.
func (c *checker) claimed(d *delivery) int64 {
	if at := c.claims[claim{d.Relay, d.Claim}]; at != 0 && at < d.At {
		return at
	}
	return d.At
}

// holds reports whether the delivery's relay provably had the message from its claim up to a time.
func (c *checker) holds(d *delivery, to int64) bool {
	return c.tenures.held(d.Relay, c.claimed(d), to)
}

// published counts what became of the message's transaction.
func (c *checker) published(m *message) {
	switch {
	case m.committed != nil:
		c.counts.Committed++
	case m.publishing == nil:
	case m.rolledBack():
		c.counts.RolledBack++
	default:
		c.counts.Unknown++
	}
}

// existence: only what was committed is delivered, and not before.
func (c *checker) existence(m *message) {
	if len(m.deliveries) == 0 {
		return
	}
	d := m.deliveries[0]
	switch {
	case m.publishing == nil:
		c.report(Phantom, []*Event{d.Event}, "message %s was delivered by %s but never published", m.id, d.Process)
	case m.rolledBack():
		c.report(Phantom, []*Event{m.publishing, d.Event}, "message %s was delivered by %s but its transaction was rolled back", m.id, d.Process)
	case d.At < m.publishing.At:
		c.report(Early, []*Event{d.Event, m.publishing}, "message %s was delivered by %s before %s began to commit it", m.id, d.Process, m.publishing.Process)
	}
}

// content: what arrives is what was published, the same each time.
func (c *checker) content(m *message) {
	if m.publishing == nil {
		return
	}
	p, seq := m.publishing, m.publishing.Seq
	for _, d := range m.deliveries {
		for _, f := range []struct{ name, was, is string }{
			{"topic", p.Topic, d.Topic}, {"key", p.Key, d.Key}, {"payload", p.Payload, d.Payload},
		} {
			if f.was != f.is {
				c.report(Changed, []*Event{p, d.Event}, "message %s was published with %s %q and delivered with %q", m.id, f.name, f.was, f.is)
			}
		}
		if seq != 0 && d.Seq != seq {
			c.report(Changed, []*Event{p, d.Event}, "message %s had seq %d and was delivered with seq %d", m.id, seq, d.Seq)
		}
		seq = d.Seq
	}
}

// lost: what was committed, or redriven, comes to an end.
func (c *checker) lost(m *message) {
	if m.committed == nil {
		return
	}
	ended := m.ended()
	if endAfter(ended, 0) == forever {
		c.report(Lost, []*Event{m.publishing, m.committed, m.lastEvent()}, "message %s (seq %d, key %q) was committed and never accepted", m.id, m.seq(), m.publishing0().Key)
		return
	}
	for _, e := range m.redriven {
		if endAfter(ended, e.since()) == forever {
			c.report(Lost, []*Event{m.committed, e, m.lastEvent()}, "message %s was redriven and never accepted since", m.id)
		}
	}
}

// lastEvent is the last that was heard of the message; nil if it was never delivered nor settled.
func (m *message) lastEvent() *Event {
	var last *Event
	for _, d := range m.deliveries {
		last = d.Event
		if d.end != nil {
			last = d.end
		}
	}
	for _, s := range m.settlements {
		if last == nil || s.event().At > last.At {
			last = s.event()
		}
	}
	return last
}

// seq is zero if it was never logged.
func (m *message) seq() int64 {
	if len(m.deliveries) > 0 {
		return m.deliveries[0].Seq
	}
	return m.publishing0().Seq
}
