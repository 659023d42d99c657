package history

// Order is what the failure of a message means for the younger ones of its key. It is the policy of the message's own
// topic.
type Order uint8

const (
	Skip  Order = iota // they wait while it is retried, and go on when it is dead
	Block              // it is never dead, and they wait until it is accepted, expired or discarded
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

// surrendered: a message that blocks its key is retried for ever.
func (c *checker) surrendered(m *message) {
	if c.policy(m) != Block {
		return
	}
	for _, s := range m.settlements {
		if s.event().Outcome == OutcomeDied {
			c.report(Surrendered, []*Event{m.publishing, s.event()}, "message %s, which blocks its key, was settled as dead by %s", m.id, s.event().Process)
			return
		}
	}
}

// revived: nothing that an operator has discarded comes again, but from a claim that was made before.
func (c *checker) revived(m *message) {
	for _, e := range m.discarded {
		for _, d := range m.deliveries {
			if d.At > e.At && c.claimSaw(d) > e.At && !m.redrivenBetween(e.since(), d.At) {
				c.report(Revived, []*Event{e, d.Event}, "message %s was discarded and then delivered by %s", m.id, d.Process)
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
