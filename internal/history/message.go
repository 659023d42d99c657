package history

import "slices"

// message is everything that happened to one message.
type message struct {
	id                  string
	publishing          *Event // the first one
	publishes, rollback int
	committed           *Event
	deliveries          []*delivery // in order of their beginning
	settlements         []*settlement
	discarded, redriven []*Event
}

type delivery struct {
	*Event          // Begun
	end      *Event // nil: never logged
	message  *message
	lastOpen int64 // end.At, or for ever
}

// settlement is a request to settle and its answer; either may be missing.
type settlement struct {
	request, answer *Event
}

const forever = int64(1<<63 - 1)

func (d *delivery) accepted() bool { return d.end != nil && d.end.Kind == Accepted }

// book is a history sorted by what it is about.
type book struct {
	messages map[string]*message
	order    []*message // of first mention
	claims   map[claim]int64
	tenures  *tenures
	counts   Counts
}

type claim struct {
	relay string
	id    int64
}

func newBook(events []Event) *book {
	b := &book{messages: map[string]*message{}, claims: map[claim]int64{}, tenures: newTenures()}
	for i := range events {
		b.add(&events[i])
	}
	return b
}

func (b *book) add(e *Event) {
	b.tenures.add(e)
	b.count(e)
	if e.Kind == Claimed {
		b.claims[claim{e.Relay, e.Claim}] = e.since()
	}
	if e.Message == "" {
		return
	}
	m := b.messages[e.Message]
	if m == nil {
		m = &message{id: e.Message}
		b.messages[e.Message] = m
		b.order = append(b.order, m)
	}
	m.add(e)
}

func (b *book) count(e *Event) {
	c := &b.counts
	switch e.Kind {
	case Begun:
		c.Deliveries++
	case Accepted:
		c.Accepted++
	case Failed:
		c.Failed++
	case Fenced:
		c.Fenced++
	case LeaseLost:
		c.LeasesLost++
	case Died:
		c.Deaths++
	}
}

func (m *message) add(e *Event) {
	switch e.Kind {
	case Publishing:
		m.publishes++
		if m.publishing == nil {
			m.publishing = e
		}
	case Committed:
		m.committed = e
	case RolledBack:
		m.rollback++
	case Begun:
		m.deliveries = append(m.deliveries, &delivery{Event: e, message: m, lastOpen: forever})
	case Accepted, Failed:
		m.endDelivery(e)
	case Settling:
		m.settlements = append(m.settlements, &settlement{request: e})
	case Settled, Fenced:
		m.answer(e)
	case Discarded:
		m.discarded = append(m.discarded, e)
	case Redriven:
		m.redriven = append(m.redriven, e)
	}
}

func (m *message) endDelivery(e *Event) {
	for _, d := range slices.Backward(m.deliveries) {
		if d.end == nil && d.Relay == e.Relay && d.Destination == e.Destination && d.Claim == e.Claim {
			d.end, d.lastOpen = e, e.At
			return
		}
	}
}

func (m *message) answer(e *Event) {
	for _, s := range slices.Backward(m.settlements) {
		if s.answer == nil && s.request.Relay == e.Relay && s.request.Claim == e.Claim && s.request.Outcome == e.Outcome {
			s.answer = e
			return
		}
	}
	m.settlements = append(m.settlements, &settlement{answer: e})
}

// event is the answer if there is one.
func (s *settlement) event() *Event {
	if s.answer != nil {
		return s.answer
	}
	return s.request
}

// since is when the settlement was asked for, the first time if it had to be repeated.
func (s *settlement) since() int64 {
	switch {
	case s.request == nil:
		return s.answer.since()
	case s.answer == nil:
		return s.request.At
	}
	return min(s.request.At, s.answer.since())
}

func (s *settlement) settled() bool { return s.answer != nil && s.answer.Kind == Settled }

// fenced settlements have changed nothing; one without an answer may have.
func (s *settlement) fenced() bool { return s.answer != nil && s.answer.Kind == Fenced }

// ends reports whether the outcome leaves nothing to deliver.
func (s *settlement) ends() bool {
	switch s.event().Outcome {
	case OutcomeDelivered, OutcomeDropped, OutcomeExpired, OutcomeDied:
		return true
	}
	return false
}

// rolledBack reports whether every transaction that published the message is known to have left nothing.
func (m *message) rolledBack() bool { return m.committed == nil && m.rollback >= m.publishes }

// ended lists the earliest times at which the message may have been over, in order: it was accepted, settled
// otherwise, or discarded. Settled as delivered is not among them: that must have been accepted.
func (m *message) ended() []int64 { return m.endings(func(string) bool { return true }) }

// released lists the earliest times at which the message may have let go of its key: when its life was over it did,
// whenever that was noticed.
func (m *message) released(order Order) []int64 {
	times := m.endings(func(outcome string) bool { return outcome != OutcomeDied || order != Park && order != Block })
	if until := m.publishing0().Until; until != 0 {
		times = append(times, until)
		slices.Sort(times)
	}
	return times
}

func (m *message) endings(counts func(outcome string) bool) []int64 {
	var times []int64
	for _, d := range m.deliveries {
		if d.accepted() {
			times = append(times, d.end.At)
		}
	}
	for _, s := range m.settlements {
		if s.ends() && !s.fenced() && s.event().Outcome != OutcomeDelivered && counts(s.event().Outcome) {
			times = append(times, s.since())
		}
	}
	for _, e := range m.discarded {
		times = append(times, e.since())
	}
	slices.Sort(times)
	return times
}

// pending lists the spans in which the message certainly was there to be delivered and held its key.
func (m *message) pending(order Order) []span {
	ended := m.released(order)
	var spans []span
	if from := m.visible(); from != 0 {
		spans = append(spans, span{from, endAfter(ended, 0)})
	}
	for _, e := range m.redriven {
		if until := m.publishing0().Until; until == 0 || e.At < until {
			spans = append(spans, span{e.At, endAfter(ended, e.since())})
		}
	}
	return spans
}

// visible is the time from which every claim had to see the message; zero if there is none.
func (m *message) visible() int64 {
	switch {
	case m.committed != nil && !m.publishing0().Deferred:
		return m.committed.At
	case len(m.deliveries) > 0:
		return m.deliveries[0].At
	}
	return 0
}

// publishing0 is never nil.
func (m *message) publishing0() *Event {
	if m.publishing == nil {
		return &Event{}
	}
	return m.publishing
}

func endAfter(ended []int64, from int64) int64 {
	for _, at := range ended {
		if at >= from {
			return at
		}
	}
	return forever
}
