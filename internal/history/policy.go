package history

// Order is what the failure of a message means for the younger ones of its key. It is the policy of the message's own
// topic.
type Order uint8

const (
	Skip  Order = iota // they wait while it is retried, and go on when it is dead
	Block              // failing never makes it dead, and they wait until it is accepted, expired or discarded
	Park               // they wait while it is dead too, until it is redriven and ends, or is discarded
	None               // keys order nothing
)

// policy is the order of the topic that the message was published with, or, if that was not logged, delivered with.
func (c *checker) policy(m *message) Order {
	topic := m.publishing0().Topic
	if m.publishing == nil && len(m.deliveries) > 0 {
		topic = m.deliveries[0].Topic
	}
	return c.policyOf(topic)
}

func (c *checker) policyOf(topic string) Order {
	if c.Order == nil {
		return Skip
	}
	return c.Order(topic)
}

// surrendered: a message that blocks its key is retried for as long as it lives. Without a key it blocks none.
func (c *checker) surrendered(m *message) {
	p := m.publishing0()
	if c.policy(m) != Block || p.Key == "" {
		return
	}
	for _, s := range m.settlements {
		if s.event().Outcome == OutcomeDied && (p.Until == 0 || s.since() < p.Until) {
			c.report(Surrendered, []*Event{m.publishing, s.event()}, "message %s, which blocks its key, was settled as dead by %s", m.id, s.event().Process)
			return
		}
	}
}

// revived: nothing that an operator has discarded comes again, and nothing is discarded that a relay holds while its
// lease lasts.
func (c *checker) revived(m *message) {
	for _, e := range m.discarded {
		for _, d := range m.deliveries {
			switch {
			case d.At > e.At && c.claimSaw(d) > e.At:
				c.report(Revived, []*Event{e, d.Event}, "message %s was discarded and then claimed and delivered by %s", m.id, d.Process)
				return
			case d.At < e.since() && d.lastOpen > e.At && c.holds(d, e.At):
				c.report(Revived, []*Event{d.Event, e, d.end}, "message %s was discarded while %s had it in flight, and its lease held", m.id, d.Process)
				return
			}
		}
	}
}

// spent: every attempt that is counted was asked for by a settlement. Attempts that no event tells are not judged.
func (c *checker) spent(m *message) {
	for _, d := range m.deliveries {
		asked := int64(0)
		for _, s := range m.settlements {
			if s.since() < d.At && !s.fenced() && (s.event().Outcome == OutcomeRetried || s.event().Outcome == OutcomeDied) {
				asked++
			}
		}
		if d.Attempt > asked+1 {
			c.report(Spent, []*Event{m.publishing, d.Event}, "message %s was delivered by %s as attempt %d, but only %d had been settled as failed",
				m.id, d.Process, d.Attempt, asked)
			return
		}
	}
}
