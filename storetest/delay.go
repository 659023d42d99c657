package storetest

import (
	"time"

	"github.com/outboxrelay/outbox"
)

func delayCases() []Case {
	return []Case{
		{"a delayed message comes at its time by the outbox's clock", AtLeastOnce, delayed},
		{"a message for the past comes at once", AtLeastOnce, deliverAtPast},
		{"a message tells its deadline by the local clock", NothingLost, deadline},
		{"a claim's TTL is the life of messages without their own", NothingLost, defaultLife},
		{"a message that expires in a far century is not expired", NothingLost, farExpiry},
		{"a head that is due is not kept out by those behind it", AtLeastOnce, dueHead},
		{"an expired message is claimable, to be settled as expired, and its key goes on", NothingLost, expired},
		{"a retry comes no later than the message expires", NothingLost, retryBeforeExpiry},
	}
}

func delayed(e *env) {
	r := e.relay()
	e.publish(
		outbox.Message{Topic: "a", Payload: []byte("delay"), Delay: 10 * time.Minute},
		outbox.Message{Topic: "a", Payload: []byte("at"), DeliverAt: time.Now().Add(20 * time.Minute)},
	)
	r.takesNothing()
	e.equal("states", e.counts(), Counts{Waiting: 2})
	if due := r.claim().NextDue; due <= 9*time.Minute || due > 10*time.Minute {
		e.Errorf("next is due in %v, want 10m", due)
	}
	e.advance(9*time.Minute, r)
	r.takesNothing()
	e.advance(time.Minute, r)
	r.takes("delay")
	r.takesNothing()
	e.advance(11*time.Minute, r)
	r.takes("at")
	e.equal("next due", r.claim().NextDue, time.Duration(0))
}

func deliverAtPast(e *env) {
	e.publish(outbox.Message{Topic: "a", Payload: []byte("past"), DeliverAt: time.Now().Add(-time.Hour)})
	e.relay().takes("past")
}

// near demands that t is d from the local now, give or take what a slow machine needs.
func (e *env) near(what string, t time.Time, d time.Duration) {
	e.Helper()
	if off := time.Until(t) - d; off < -10*time.Second || off > 10*time.Second {
		e.Fatalf("%s is in %v, want %v", what, time.Until(t), d)
	}
}

func deadline(e *env) {
	r := e.relay()
	e.publish(outbox.Message{Topic: "a", Payload: []byte("ttl"), TTL: 10 * time.Minute})
	e.publish(outbox.Message{Topic: "b", Payload: []byte("at"), ExpiresAt: time.Now().Add(time.Hour)})
	ds := r.take(2)
	for _, d := range ds {
		e.near("the deadline of "+string(d.Payload), d.Deadline,
			map[string]time.Duration{"ttl": 10 * time.Minute, "at": time.Hour}[string(d.Payload)])
	}
	e.advance(4*time.Minute, r)
	r.settled(outcomes(outbox.GivenBack, ds...)...)
	for _, d := range r.take(2) {
		e.near("the later deadline of "+string(d.Payload), d.Deadline,
			map[string]time.Duration{"ttl": 6 * time.Minute, "at": 56 * time.Minute}[string(d.Payload)])
	}
}

// defaultLife: the claim's TTL counts from publishing, and only for messages without an end of their own.
func defaultLife(e *env) {
	r := e.relay()
	e.publish(msg("a", "k", "none"), outbox.Message{Topic: "a", Payload: []byte("own"), TTL: time.Hour})
	e.advance(4*time.Minute, r)
	life := func(q *outbox.ClaimQuery) { q.TTL = 10 * time.Minute }
	want := map[string]time.Duration{"none": 6 * time.Minute, "own": 56 * time.Minute}
	ds := r.take(2, life)
	for _, d := range ds {
		e.near("the deadline of "+string(d.Payload), d.Deadline, want[string(d.Payload)])
	}
	r.settled(outcomes(outbox.GivenBack, ds...)...)
	for _, d := range r.take(2) {
		if string(d.Payload) == "none" && !d.Deadline.IsZero() {
			e.Errorf("without a life in the claim the deadline is %v", d.Deadline)
		}
		r.deliver(d)
	}
}

func farExpiry(e *env) {
	r := e.relay()
	never := time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC)
	e.publish(outbox.Message{Topic: "a", Payload: []byte("never"), ExpiresAt: never})
	d := r.takes("never")[0]
	if d.Deadline.Before(time.Now().AddDate(100, 0, 0)) {
		e.Errorf("deadline is %v", d.Deadline)
	}
}

// dueHead: the head of a key becomes due after more messages behind it than a claim takes.
func dueHead(e *env) {
	const behind = 20
	r := e.relay()
	e.publish(msg("a", "k", "head"))
	r.settled(retried(r.takes("head")[0], 10*time.Minute))
	for range behind {
		e.publish(outbox.Message{Topic: "a", Key: "k", Payload: []byte("behind"), Delay: time.Minute})
	}
	e.publish(outbox.Message{Topic: "a", Payload: []byte("other"), Delay: 11 * time.Minute})
	e.advance(12*time.Minute, r)
	done := map[string]int{}
	for n := range behind + 2 {
		d := r.take(1, limit(1))[0]
		if done[string(d.Payload)]++; n == 0 && string(d.Payload) == "behind" {
			e.Error("the head was passed")
		}
		r.deliver(d)
	}
	e.equal("delivered", done, map[string]int{"head": 1, "behind": behind, "other": 1})
}

func expired(e *env) {
	r := e.relay()
	e.publish(outbox.Message{Topic: "a", Key: "k", Payload: []byte("old"), TTL: time.Minute})
	e.advance(2*time.Minute, r)
	d := r.takes("old")[0]
	if d.Deadline.IsZero() || d.Deadline.After(time.Now()) {
		e.Errorf("deadline %v is not over", d.Deadline)
	}
	e.publish(msg("a", "k", "next"))
	r.takesNothing()
	r.settled(outcome(outbox.Expired, d))
	r.deliver(r.takes("next")...)
	e.equal("what is left", e.counts(), Counts{})
}

func retryBeforeExpiry(e *env) {
	r := e.relay()
	e.publish(outbox.Message{Topic: "a", Payload: []byte("short"), TTL: 2 * time.Minute})
	r.settled(retried(r.takes("short")[0], time.Hour))
	r.takesNothing()
	e.advance(2*time.Minute+time.Second, r)
	e.equal("attempt", r.takes("short")[0].Attempt, 2)
}
