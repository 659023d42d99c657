package storetest

import (
	"time"

	"github.com/outboxrelay/outbox"
)

func retryCases() []Case {
	return []Case{
		{"a retry counts the attempt and comes after its delay", AttemptsCount, retryAfterDelay},
		{"a retry does not wait for the rest of its claim", Prompt, retryBesideSlow},
		{"a retried message holds its key", OrderPerKey, retryHoldsKey},
		{"followers of a failed head come after it, in order, unspent", OrderPerKey, followersAfterHead},
		{"an unlisted message that waited holds its key", OrderPerKey, unlistedWaitingHolds},
		{"an unlisted message is claimable at once", Prompt, unlistedIsReady},
	}
}

func retryAfterDelay(e *env) {
	r := e.relay()
	e.publish(msg("a", "", "flaky"))
	for attempt := 1; attempt <= 3; attempt++ {
		d := r.takes("flaky")[0]
		e.equal("attempt", d.Attempt, attempt)
		r.settled(retried(d, 10*time.Minute))
		e.equal("states", e.counts(), Counts{Waiting: 1})
		r.takesNothing()
		if due := r.claim().NextDue; due <= 9*time.Minute || due > 10*time.Minute {
			e.Errorf("next is due in %v, want 10m", due)
		}
		e.advance(9*time.Minute, r)
		r.takesNothing()
		e.advance(time.Minute+time.Second, r)
	}
	d := r.takes("flaky")[0]
	r.deliver(d)
	e.equal("what is left", e.counts(), Counts{})
}

func retryBesideSlow(e *env) {
	r := e.relay()
	e.publish(msg("a", "", "slow"), msg("a", "", "failing"))
	var slow, failing *outbox.Delivery
	for _, d := range r.take(2) {
		if string(d.Payload) == "slow" {
			slow = d
		} else {
			failing = d
		}
	}
	r.settled(retried(failing, time.Second))
	e.advance(2*time.Second, r)
	e.equal("attempt", r.takes("failing")[0].Attempt, 2)
	r.deliver(slow)
}

func retryHoldsKey(e *env) {
	r, other := e.relay(), e.relay()
	e.publish(msg("a", "k", "1"))
	r.settled(retried(r.takes("1")[0], 10*time.Second))
	e.publish(msg("a", "k", "2"), msg("a", "l", "3"))
	other.takes("3")
	other.takesNothing()
	r.takesNothing()
	e.advance(11*time.Second, r, other)
	e.equal("delivered", r.drain(2), []string{"1", "2"})
}

func followersAfterHead(e *env) {
	r, other := e.relay(), e.relay()
	e.publish(msg("a", "k", "1"), msg("a", "k", "2"), msg("a", "k", "3"))
	ds := r.takes("1", "2", "3")
	r.settled(append(outcomes(outbox.Unlisted, ds[1:]...), retried(ds[0], 10*time.Second))...)
	e.equal("states", e.counts(), Counts{Ready: 2, Waiting: 1})
	other.takesNothing()
	e.advance(11*time.Second, r, other)
	var attempts []int
	var order []string
	for patient := e.patiently(); len(order) < 3; patient() {
		for _, d := range deliveries(other.claim().Claims) {
			order, attempts = append(order, string(d.Payload)), append(attempts, d.Attempt)
			other.deliver(d)
		}
	}
	e.equal("delivered", order, []string{"1", "2", "3"})
	e.equal("attempts", attempts, []int{2, 1, 1})
}

func unlistedWaitingHolds(e *env) {
	r := e.relay()
	e.publish(outbox.Message{Topic: "a", Key: "k", Payload: []byte("scheduled"), Delay: 10 * time.Second})
	e.advance(11*time.Second, r)
	r.settled(outcomes(outbox.Unlisted, r.takes("scheduled")...)...)
	e.publish(msg("b", "k", "ready"))
	r.takesNothing(closed("a"))
	e.equal("delivered", r.drain(2), []string{"scheduled", "ready"})
}

func unlistedIsReady(e *env) {
	r, other := e.relay(), e.relay()
	e.publish(msg("a", "k", "1"))
	ds := r.takes("1")
	r.settled(outcomes(outbox.Unlisted, ds...)...)
	e.equal("states", e.counts(), Counts{Ready: 1})
	e.equal("attempt", other.takes("1")[0].Attempt, 1)
	e.fenced(r, ds...)
}
