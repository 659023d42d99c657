package outbox

import (
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
// Unavailable; then it rests, and after that a single message is let through as the probe, whose result
// opens the scope or begins a longer rest. Only the probe counts: results of deliveries that were under way
// when the scope closed say nothing new.
//
// The scopes' messages that a claim brought all the same are given back, and while a scope rests or is
// probed its topics are closed to claims (TestBreakerProbesWithOneMessage, TestBreakerOfOneHandler).
type breaker struct {
	parts   scoped
	trouble atomic.Int32 // scopes that are not open, so that the usual case takes no lock

	mu     sync.Mutex
	states []scopeState
}

type scopeState struct {
	failures int // in a row; 0: open for traffic
	until    time.Time
	probing  bool
}

func newBreaker(sink Sink) *breaker {
	parts, ok := sink.(scoped)
	if !ok {
		parts = wholeLane{}
	}
	return &breaker{parts: parts, states: make([]scopeState, parts.scopes())}
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
	case s.failures == 0:
		return admitted
	case s.probing || now.Before(s.until):
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
)

// stateChange is what a report did to a scope.
type stateChange struct {
	scope  string
	closed bool
	first  bool // closed after it was open
	opened bool
	rest   time.Duration
}

// report tells how an admitted delivery ended.
func (b *breaker) report(topic string, a admission, res probeResult, now time.Time) stateChange {
	if a == admitted && res != saysUnavailable {
		return stateChange{}
	}
	i := b.parts.scopeOf(topic)
	if i < 0 {
		return stateChange{}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	s := &b.states[i]
	if a == admitted && s.failures > 0 {
		return stateChange{}
	}
	s.probing = false
	switch res {
	case saysAvailable:
		*s = scopeState{}
		b.trouble.Add(-1)
		return stateChange{scope: b.parts.scopeName(i), opened: true}
	case saysUnavailable:
		return b.rest(i, now)
	}
	return stateChange{}
}

func (b *breaker) rest(i int, now time.Time) stateChange {
	s := &b.states[i]
	if s.failures == 0 {
		b.trouble.Add(1)
	}
	s.failures++
	rest := breakerRest.next(s.failures)
	s.until = now.Add(rest)
	return stateChange{scope: b.parts.scopeName(i), closed: true, first: s.failures == 1, rest: rest}
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
	for _, s := range b.states {
		switch {
		case s.failures == 0:
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
			return b.states[i].probing || now.Before(b.states[i].until)
		})
	}
	return g
}
