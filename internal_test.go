package outbox

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
)

// TestLeaseSuspended: a lease that has ended by either clock is over, whatever the other one says.
func TestLeaseSuspended(t *testing.T) {
	now := time.Now()
	r := &running{Relay: &Relay{cfg: Config{Lease: 30 * time.Second}}, base: t.Context(), began: now}
	s := newSession(r)
	s.extend(now)
	s.begin()
	defer s.close()
	if !s.valid(now.Add(26 * time.Second)) {
		t.Error("the lease is over too early")
	}
	if s.valid(now.Add(28 * time.Second)) {
		t.Error("the lease lasts longer than nine tenths of it")
	}
	r.session.Store(s)
	if r.checkLease(now); s.lost() {
		t.Error("a valid lease was given up")
	}
	s.wallUntil.Store(now.UnixNano() - 1) // the wall clock went on while the process was suspended
	if s.valid(now) {
		t.Error("the wall clock does not end the lease")
	}
	s.extend(now)
	s.monoUntil.Store(-1) // the wall clock was set back
	if s.valid(now) {
		t.Error("the monotonic clock does not end the lease")
	}
	r.checkLease(now)
	if s.valid(now) || !errors.Is(context.Cause(s.ctx), ErrLeaseLost) {
		t.Error("a lost lease is valid")
	}
}

func TestAttemptContext(t *testing.T) {
	r := &running{Relay: &Relay{cfg: Config{Lease: 30 * time.Second}}, base: t.Context(), began: time.Now()}
	newAttempt := func(s *session, limit time.Duration) *attempt {
		now := time.Now()
		return &attempt{session: s, began: now, deadline: now.Add(limit)}
	}
	s := newSession(r)
	defer s.end(ErrShutdown)

	a := newAttempt(s, time.Hour)
	child, cancel := context.WithCancel(a)
	defer cancel()
	if cause := a.end(time.Now()); cause != nil {
		t.Errorf("an attempt that was not cancelled has the cause %v", cause)
	}
	<-child.Done()

	a = newAttempt(s, time.Hour)
	if cause := a.end(time.Now()); cause != nil || a.Err() == nil {
		t.Errorf("an attempt nobody looked at: cause %v, afterwards %v", cause, a.Err())
	}
	a = newAttempt(s, time.Millisecond)
	<-a.Done()
	if cause := a.end(time.Now()); cause != ErrHandlerTimeout {
		t.Errorf("cause %v after the deadline", cause)
	}
	a = newAttempt(s, -1)
	if cause := a.end(time.Now()); cause != ErrHandlerTimeout {
		t.Errorf("cause %v after a deadline nobody looked at", cause)
	}
	a = newAttempt(s, time.Hour)
	s.lose()
	if cause := a.end(time.Now()); cause != ErrLeaseLost {
		t.Errorf("cause %v after the lease", cause)
	}
}

// TestBreaker walks a scope through its states; all times are given.
func TestBreaker(t *testing.T) {
	b, now := newBreaker(SinkFunc(nil)), time.Now()
	msg := &Delivery{Message: Message{Topic: "a"}, Seq: 1}
	expect := func(step string, got, want any) {
		t.Helper()
		if got != want {
			t.Errorf("%s: %v, want %v", step, got, want)
		}
	}
	expect("open", b.admit("a", now), admitted)
	change := b.report(msg, admitted, saysUnavailable, now)
	expect("closed", change.closed && change.first && change.rest >= 500*time.Millisecond && change.rest <= time.Second, true)
	expect("a delivery that was under way", b.report(msg, admitted, saysUnavailable, now), stateChange{})
	expect("its success", b.report(msg, admitted, saysAvailable, now), stateChange{})
	expect("resting", b.admit("a", now), refused)
	expect("gate while resting", b.gate(now).all, true)
	now = now.Add(change.rest)
	expect("gate after the rest", b.gate(now).all == false && b.gate(now).probe, true)
	expect("the probe", b.admit("a", now), admittedAsProbe)
	expect("beside the probe", b.admit("a", now), refused)
	expect("gate beside the probe", b.gate(now).all, true)
	expect("a probe without result", b.report(msg, admittedAsProbe, saysNothing, now), stateChange{})
	expect("another probe", b.admit("a", now), admittedAsProbe)
	change = b.report(msg, admittedAsProbe, saysUnavailable, now)
	expect("longer rest", change.closed && !change.first && change.rest >= time.Second, true)
	for range 100 {
		now = now.Add(change.rest)
		expect("probe", b.admit("a", now), admittedAsProbe)
		change = b.report(msg, admittedAsProbe, saysUnavailable, now)
	}
	expect("longest rest", change.rest >= 15*time.Second && change.rest <= 30*time.Second, true)
	now = now.Add(change.rest)
	expect("last probe", b.admit("a", now), admittedAsProbe)
	expect("open again", b.report(msg, admittedAsProbe, saysAvailable, now).opened, true)
	expect("traffic", b.admit("a", now), admitted)
	expect("no trouble left", b.trouble.Load(), int32(0))
}

// TestClosedTopicsOfMux: the set names exactly the topics of the handlers that rest.
func TestClosedTopicsOfMux(t *testing.T) {
	mux := NewMux()
	for _, pattern := range []string{"a.>", "a.b", "*.c", ">"} {
		mux.Handle(pattern, func(context.Context, *Delivery) error { return nil })
	}
	for i, want := range []map[string]bool{
		{"a.x": true, "a.b": false, "a.c": true, "b.c": false, "z": false},
		{"a.x": false, "a.b": true, "a.c": false, "b.c": false, "z": false},
		{"a.x": false, "a.b": false, "a.c": false, "b.c": true, "z": false},
		{"a.x": false, "a.b": false, "a.c": false, "b.c": false, "z": true},
	} {
		set := mux.topicsOf(func(scope int) bool { return scope == i })
		for topic, in := range want {
			if set.Contains(topic) != in || (mux.scopeOf(topic) == i) != in {
				t.Errorf("handler %d, topic %s: %v", i, topic, !in)
			}
		}
	}
}

// FuzzCovers: a pattern that covers another matches whatever that one matches.
func FuzzCovers(f *testing.F) {
	f.Add("a.>", "a.*", "a.b")
	f.Add("*", ">", "a")
	f.Add("a.*.>", "a.>", "a.b")
	f.Fuzz(func(t *testing.T, wide, narrow, topic string) {
		if CheckPattern(wide) != nil || CheckPattern(narrow) != nil || CheckTopic(topic) != nil {
			return
		}
		if covers(wide, narrow) && MatchTopic(narrow, topic) && !MatchTopic(wide, topic) {
			t.Errorf("%q covers %q, but only the latter matches %q", wide, narrow, topic)
		}
		if CheckTopic(narrow) == nil && covers(wide, narrow) != MatchTopic(wide, narrow) {
			t.Errorf("covers(%q, %q) differs from MatchTopic", wide, narrow)
		}
	})
}

// TestRuns: a claim's messages of a key are one run, in order; all others are runs of their own.
func TestRuns(t *testing.T) {
	p := newPolicies((&Config{Rules: []Rule{{Topics: []string{"free"}, Order: OrderNone}}}).WithDefaults())
	c := &heldClaim{}
	for _, s := range []string{"t:a", "t:", "t:b", "t:a", "free:a", "t:a", "t:", "t:b"} {
		topic, key, _ := strings.Cut(s, ":")
		c.ds = append(c.ds, &Delivery{Message: Message{Topic: topic, Key: key}})
	}
	got := ""
	for _, r := range c.appendRuns(nil, &p) {
		for i := r.first; i != noMore; i = c.after(i) {
			got += fmt.Sprint(i)
		}
		got += " "
	}
	if got != "035 1 27 4 6 " {
		t.Errorf("runs %s", got)
	}
}

func TestStackOf(t *testing.T) {
	if stack := stackOf(goroutineID()); !strings.Contains(stack, "TestStackOf") {
		t.Errorf("stack %q", stack)
	}
	if stack := stackOf(0); stack != "" {
		t.Errorf("a stack of no goroutine: %q", stack)
	}
}
