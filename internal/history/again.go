package history

import "slices"

// duplicates: a message comes again only if it failed, was redriven, or if a lease or a process ended between
// its delivery and its settlement.
func (c *checker) duplicates(m *message) {
	for i, d := range m.deliveries {
		current := c.holds(d, d.At)
		if !current {
			c.counts.OutsideLease++
		}
		before := m.acceptedBefore(d, m.deliveries[:i])
		if before != nil {
			c.counts.Duplicates++
		}
		// A relay without its lease may finish the send that it had begun to begin; that it is not held to.
		if !current {
			continue
		}
		if s := c.settledBefore(m, d); s != nil {
			c.report(Duplicate, []*Event{s.answer, d.Event}, "message %s was settled as %s by %s and then delivered again by %s",
				m.id, s.answer.Outcome, s.answer.Process, d.Process)
		} else if before != nil && !c.tenures.lapsed(before.Relay, c.claimed(before), d.At) {
			c.report(Duplicate, []*Event{before.Event, before.end, d.Event},
				"message %s was accepted at %s and delivered again by %s, although relay %s neither died nor lost its lease",
				m.id, before.Process, d.Process, before.Relay)
		}
	}
}

// acceptedBefore finds the last delivery that was accepted before d began, with no redrive between the two.
func (m *message) acceptedBefore(d *delivery, earlier []*delivery) *delivery {
	for _, e := range slices.Backward(earlier) {
		if e.Destination == d.Destination && e.accepted() && e.end.At < d.At && !m.redrivenBetween(e.At, d.At) {
			return e
		}
	}
	return nil
}

func (m *message) redrivenBetween(from, to int64) bool {
	for _, e := range m.redriven {
		if e.At > from && e.since() < to {
			return true
		}
	}
	return false
}

// settledBefore finds a settlement that had certainly ended the message before d began.
func (c *checker) settledBefore(m *message, d *delivery) *settlement {
	for _, s := range m.settlements {
		if s.settled() && s.ends() && s.answer.Destination == d.Destination && s.answer.At < d.At &&
			!m.redrivenBetween(s.since(), d.At) && !c.forgotten(s, d) {
			return s
		}
	}
	return nil
}

// forgotten reports whether the database may have lost the settlement before d began.
func (c *checker) forgotten(s *settlement, d *delivery) bool {
	return c.SettleLoss > 0 && c.tenures.disturbedIn(s.since(), min(s.answer.At+c.SettleLoss, d.At))
}

// settlements: those of a relay that holds the message are accepted, those of any other are refused, and
// delivered means accepted.
func (c *checker) settlements(m *message) {
	for _, s := range m.settlements {
		switch {
		case s.settled():
			c.takenOver(m, s)
			c.unaccepted(m, s)
		case s.fenced():
			c.wronglyFenced(m, s)
		}
	}
}

// takenOver reports a settlement that was accepted after another claim had got the message.
func (c *checker) takenOver(m *message, s *settlement) {
	own := m.deliveryOf(s)
	if own == nil {
		return
	}
	// Once a message is over, nobody else can get it. One that comes again is got by others as soon as the
	// settlement is committed, which is before its answer is logged. And a first request may have failed, and then the
	// other have ended the message, which is what the repeated one was told.
	limit := s.since()
	if s.ends() && !s.answer.Repeated {
		limit = s.answer.At
	}
	for _, d := range m.deliveries {
		other := d.Destination == own.Destination && (d.Relay != own.Relay || d.Claim != own.Claim)
		if other && d.At > own.At && d.At < limit && !m.redrivenBetween(own.At, d.At) && c.holds(d, d.At) {
			c.report(LateSettle, []*Event{own.Event, d.Event, s.answer}, "the settlement of message %s as %s by %s was accepted after %s had taken it over",
				m.id, s.answer.Outcome, s.answer.Process, d.Process)
			return
		}
	}
}

// deliveryOf finds the delivery that the settlement is about, by its claim.
func (m *message) deliveryOf(s *settlement) *delivery {
	e := s.event()
	for _, d := range m.deliveries {
		if d.Relay == e.Relay && d.Claim == e.Claim && d.Destination == e.Destination {
			return d
		}
	}
	return nil
}

func (c *checker) unaccepted(m *message, s *settlement) {
	if s.answer.Outcome != OutcomeDelivered {
		return
	}
	for _, d := range m.deliveries {
		if d.accepted() && d.Relay == s.answer.Relay && d.Destination == s.answer.Destination && d.end.At <= s.answer.At {
			return
		}
	}
	c.report(Unaccepted, []*Event{s.answer, m.lastEvent()}, "message %s was settled as delivered by %s, where it had not been accepted", m.id, s.answer.Process)
}

// wronglyFenced reports a refusal to a relay whose claim nobody may have taken.
func (c *checker) wronglyFenced(m *message, s *settlement) {
	d := m.deliveryOf(s)
	if d == nil || len(m.discarded)+len(m.redriven) > 0 || m.askedBefore(s) {
		return
	}
	if c.holds(d, s.answer.At) {
		c.report(WrongFence, []*Event{d.Event, s.answer}, "the settlement of message %s as %s by %s was refused, although its lease held all the time",
			m.id, s.answer.Outcome, s.answer.Process)
	}
}

// askedBefore reports whether the same settlement was sent before without an answer: it may have taken effect
// and ended the claim.
func (m *message) askedBefore(s *settlement) bool {
	for _, o := range m.settlements {
		if o.answer == nil && o.request.Relay == s.event().Relay && o.request.Claim == s.event().Claim {
			return true
		}
	}
	return false
}
