package outbox

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// breakerRest spaces the probes of a destination that is unavailable: half to all of 1, 2, 4 … 30 s.
var breakerRest = RetryPolicy{Base: time.Second, Max: 30 * time.Second, Jitter: 0.5}

// scoped is a Sink of several parts that fail independently, such as the handlers of a Mux.
type scoped interface {
	scopes() int
	scopeOf(topic string) int
	scopeName(i int) string
	topicsOf(in func(scope int) bool) TopicSet
}

// wholeLane is the one scope of any other sink.
type wholeLane struct{}

func (wholeLane) scopes() int          { return 1 }
func (wholeLane) scopeOf(string) int   { return 0 }
func (wholeLane) scopeName(int) string { return "" }
func (wholeLane) topicsOf(in func(int) bool) TopicSet {
	return TopicSet{{Pattern: ">", In: in(0)}}
}

// breaker stops deliveries to what is unavailable. A scope is open for traffic until a delivery reports
// Unavailable, or lateLimit different messages in a row exceed their time limit; then it rests, and after that
// it is probed: by a ping if the sink is a Pinger, else by a single message. A message's result opens the
// scope or begins a longer rest; a ping only lets traffic through on trial, until a message's result decides.
// Results of deliveries that were under way when the scope closed say nothing new.
//
// The scopes' messages that a claim brought all the same are given back, and while a scope rests or is
// probed its topics are closed to claims (TestBreakerProbesWithOneMessage, TestBreakerOfOneHandler).
//
// Who pays. No attempt is spent by what closes or fails a probe, with one exception: a message that closed
// the scope again and again, although others or a ping had opened it in between, has failed
// (TestBreakerBlamesCulprit). A message that failed as the probe waits until after the next one, so that
// another message is that, if there is one (TestBreakerProbesWithAnother).
type breaker struct {
	parts   scoped
	byPing  bool         // messages are no probes
	trouble atomic.Int32 // scopes that are not pristine, so that the usual case takes no lock

	mu     sync.Mutex
	states []scopeState
}

const (
	// lateLimit is how many different messages in a row must exceed their time limit to close a scope.
	lateLimit = 3
	// strikeLimit is how often a message alone may close a scope before that counts as its own failure.
	strikeLimit = 3
	// asideGap is how long after the next probe's time a message that failed as the probe comes back.
	asideGap = 250 * time.Millisecond
)

type scopeState struct {
	failures int // in a row; 0: open for traffic
	until    time.Time
	probing  bool
	trial    bool    // open after a ping
	late     []int64 // different messages that exceeded their time limit since the last one that did not
	culprit  int64   // the message that closed the scope, if no other one failed
	strikes  int     // how often it did
}

func (s *scopeState) isOpen() bool { return s.failures == 0 || s.trial }

func (s *scopeState) isPristine() bool { return s.failures == 0 && len(s.late) == 0 }

func newBreaker(sink Sink) *breaker {
	parts, ok := sink.(scoped)
	if !ok {
		parts = wholeLane{}
	}
	_, pings := sink.(Pinger)
	return &breaker{parts: parts, byPing: pings && !ok, states: make([]scopeState, parts.scopes())}
}

// admission is a breaker's answer before a delivery.
type admission uint8

const (
	admitted admission = iota
	admittedAsProbe
	refused
)

// admit decides about a message of the topic.
func (b *breaker) admit(topic string, now time.Time) admission {
	if b.trouble.Load() == 0 {
		return admitted
	}
	i := b.parts.scopeOf(topic)
	if i < 0 {
		return admitted
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	switch s := &b.states[i]; {
	case s.isOpen():
		return admitted
	case b.byPing || s.probing || now.Before(s.until):
		return refused
	default:
		s.probing = true
		return admittedAsProbe
	}
}

// probeResult is what a delivery says about its destination.
type probeResult uint8

const (
	saysNothing probeResult = iota
	saysAvailable
	saysUnavailable
	saysLate // the time limit was exceeded
)

// stateChange is what a report did to a scope, and what that means for the message.
type stateChange struct {
	scope  string
	closed bool
	first  bool // closed after it was open
	opened bool
	rest   time.Duration
	price  price

	checked bool // by a ping or preflight, whose reasons are worth a line each
}

// price is what a failure costs its message.
type price uint8

const (
	asJudged price = iota
	exempt         // no attempt: the destination is at fault
	aside          // no attempt, and a wait until after the next probe
	blamed         // an attempt: the message is at fault
)

// report tells how an admitted delivery ended.
func (b *breaker) report(d *Delivery, a admission, res probeResult, now time.Time) stateChange {
	if b.trouble.Load() == 0 && res <= saysAvailable {
		return stateChange{}
	}
	i := b.parts.scopeOf(d.Topic)
	if i < 0 {
		return stateChange{}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	s := &b.states[i]
	defer b.countTrouble(s.isPristine(), s)
	var change stateChange
	switch {
	case a == admittedAsProbe:
		change = s.probed(d.Seq, res, now)
	case s.isOpen():
		change = s.delivered(d.Seq, res, now)
	case res == saysLate:
		change.price = exempt
	case res == saysUnavailable && d.Seq != s.culprit:
		s.culprit, s.strikes = 0, 0
	}
	if change.closed || change.opened {
		change.scope = b.parts.scopeName(i)
	}
	return change
}

func (b *breaker) countTrouble(wasPristine bool, s *scopeState) {
	switch is := s.isPristine(); {
	case wasPristine && !is:
		b.trouble.Add(1)
	case is && !wasPristine:
		b.trouble.Add(-1)
	}
}

// probed is the result of a message that was the probe.
func (s *scopeState) probed(seq int64, res probeResult, now time.Time) stateChange {
	s.probing = false
	switch res {
	case saysAvailable:
		return s.open(seq)
	case saysUnavailable, saysLate:
		change := s.rest(now)
		change.price = aside
		return change
	}
	return stateChange{}
}

// delivered is the result of a message while the scope is open.
func (s *scopeState) delivered(seq int64, res probeResult, now time.Time) stateChange {
	switch res {
	case saysAvailable:
		return s.open(seq)
	case saysUnavailable:
		return s.close(seq, now)
	case saysLate:
		if !slices.Contains(s.late, seq) {
			s.late = append(s.late, seq)
		}
		if len(s.late) >= lateLimit {
			change := s.rest(now)
			change.price = exempt
			return change
		}
	}
	return stateChange{}
}

// open ends all trouble; who caused it is remembered.
func (s *scopeState) open(seq int64) stateChange {
	change := stateChange{opened: s.failures > 0}
	if s.culprit == seq {
		s.culprit, s.strikes = 0, 0
	}
	*s = scopeState{culprit: s.culprit, strikes: s.strikes}
	return change
}

// close is what a single message did.
func (s *scopeState) close(seq int64, now time.Time) stateChange {
	if s.culprit != seq {
		s.culprit, s.strikes = seq, 0
	}
	s.strikes++
	change := s.rest(now)
	if s.strikes >= strikeLimit {
		s.culprit, s.strikes = 0, 0
		change.price = blamed
	}
	return change
}

func (s *scopeState) rest(now time.Time) stateChange {
	s.failures++
	s.trial, s.late = false, nil
	rest := breakerRest.next(s.failures)
	s.until = now.Add(rest)
	return stateChange{closed: true, first: s.failures == 1, rest: rest}
}

// checked tells the result of a ping, or of a preflight that failed. It concerns all scopes.
func (b *breaker) checked(ok bool, now time.Time) (change stateChange) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i := range b.states {
		s := &b.states[i]
		was := s.isPristine()
		if ok {
			s.trial = s.failures > 0
			continue
		}
		c := s.rest(now)
		change = stateChange{closed: true, first: change.first || c.first, rest: c.rest, checked: true}
		b.countTrouble(was, s)
	}
	return change
}

// gate is what the breaker lets a claim take.
type gate struct {
	closed TopicSet  // nil: everything
	all    bool      // nothing can be claimed
	probe  bool      // the only scope waits for its probe: claim one message
	opens  time.Time // when the first resting scope may be probed; zero if none rests
}

func (b *breaker) gate(now time.Time) gate {
	if b.trouble.Load() == 0 {
		return gate{}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	var g gate
	shut := 0
	for i := range b.states {
		switch s := &b.states[i]; {
		case s.isOpen():
		case s.probing:
			shut++
		case now.Before(s.until):
			shut++
			if g.opens.IsZero() || s.until.Before(g.opens) {
				g.opens = s.until
			}
		default:
			g.probe = len(b.states) == 1
		}
	}
	if shut > 0 {
		g.all = shut == len(b.states)
		g.closed = b.parts.topicsOf(func(i int) bool {
			s := &b.states[i]
			return !s.isOpen() && (s.probing || now.Before(s.until))
		})
	}
	return g
}
