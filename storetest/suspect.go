package storetest

import (
	"fmt"
	"time"

	"github.com/outboxrelay/outbox"
)

func suspectCases() []Case {
	return []Case{
		{"after two lapses messages are taken over one at a time", AttemptsCount, suspectsOneAtATime},
		{"a suspect is mixed neither with fresh nor with lapsed messages", AttemptsCount, suspectAlone},
		{"a relay takes one suspect over all its lanes, each relay its own", AttemptsCount, suspectPerRelay},
		{"only a suspect that lapses again has crashed", AttemptsCount, suspectCrashes},
		{"after a crash a message stays a suspect", AttemptsCount, crashedStaysSuspect},
		{"a failure without a crash ends the suspicion", AttemptsCount, failureEndsSuspicion},
		{"what is given back stays a suspect", AttemptsCount, givenBackStaysSuspect},
		{"suspects hold their keys, in order", OrderPerKey, suspectsHoldKeys},
		{"a scheduled message that is a suspect holds its key", OrderPerKey, scheduledSuspect},
		{"a suspect waits for an older message of its key", OrderPerKey, suspectBehindOlder},
		{"a suspect that waits for its key keeps no other suspect waiting", AtLeastOnce, suspectBehindRetry},
		{"suspects keep no fresh messages waiting", AtLeastOnce, suspectsBesideFresh},
		{"a suspect counts towards the limits", Bounded, suspectWithinLimits},
	}
}

// lapsedTwice publishes messages and lets relays die with them until they are suspects.
func (e *env) lapsedTwice(ms ...outbox.Message) {
	e.Helper()
	e.publish(ms...)
	for range outbox.SuspectLapses {
		e.relay().take(len(ms))
		e.lapse()
	}
}

// numbered are messages without a key, labelled prefix 0, prefix 1, …
func numbered(n int, prefix string) []outbox.Message {
	ms := make([]outbox.Message, n)
	for i := range ms {
		ms[i] = msg("a", "", fmt.Sprint(prefix, " ", i))
	}
	return ms
}

// takesSuspect claims one message, alone in its claim, with that many lapses.
func (r *relay) takesSuspect(label string, lapses int, options ...option) *outbox.Delivery {
	r.e.Helper()
	c := r.claimUntil(1, options...)[0]
	r.e.equal("suspect", labels(c.Deliveries), []string{label})
	r.e.equal("lapses", c.Lapses, lapses)
	return c.Deliveries[0]
}

// crashed is the failed attempt that a crash was.
func crashed(kind outbox.OutcomeKind, d *outbox.Delivery, delay time.Duration) outbox.Outcome {
	o := outcome(kind, d)
	o.Class, o.Delay = outbox.ClassCrash, delay
	return o
}

func suspectsOneAtATime(e *env) {
	e.lapsedTwice(numbered(5, "s")...)
	r := e.relay()
	for i := range 5 {
		d := r.takesSuspect(fmt.Sprint("s ", i), outbox.SuspectLapses)
		e.equal("attempt", d.Attempt, 1)
		r.takesNothing()
		r.deliver(d)
	}
	e.equal("what is left", e.counts(), Counts{})
}

func suspectAlone(e *env) {
	e.lapsedTwice(msg("a", "k", "suspect"))
	e.publish(msg("a", "l", "lapsed"))
	e.relay(lane(defaultLane, "a")).take(2)
	e.lapse() // the suspect has crashed, which is a suspect still
	e.publish(msg("a", "m", "fresh"))
	lapses := map[string]int{}
	for _, c := range e.relay().claimUntil(3) {
		if len(c.Deliveries) != 1 {
			e.Fatalf("%q share a claim", labels(c.Deliveries))
		}
		lapses[string(c.Deliveries[0].Payload)] = c.Lapses
	}
	e.equal("lapses", lapses, map[string]int{"suspect": outbox.SuspectLapses + 1, "lapsed": 1, "fresh": 0})
}

func suspectPerRelay(e *env) {
	e.lapsedTwice(msg("a", "", "1"), msg("b", "", "2"), msg("a", "", "3"))
	r := e.relay(lane(defaultLane, "a"), lane("second", "b"))
	first := r.take(1)
	e.equal("the first suspect", labels(first), []string{"1"})
	r.takesNothing()
	r.takesNothing(on("second"))
	other := e.relay()
	second := other.take(1)
	e.equal("the other relay's suspect", labels(second), []string{"2"})
	other.takesNothing()
	r.deliver(first...)
	r.takesNothing(on("second"))
	r.deliver(r.takes("3")...)
	other.deliver(second...)
	e.equal("what is left", e.counts(), Counts{})
}

func suspectCrashes(e *env) {
	e.lapsedTwice(numbered(3, "s")...)
	dying := e.relay()
	dying.takesSuspect("s 0", outbox.SuspectLapses)
	e.publish(msg("a", "", "fresh"))
	dying.takes("fresh")
	e.lapse()
	want := map[string]int{"s 0": outbox.SuspectLapses + 1, "s 1": outbox.SuspectLapses, "s 2": outbox.SuspectLapses, "fresh": 1}
	r := e.relay()
	for got := 0; got < len(want); {
		for _, c := range r.claimUntil(1, limit(1)) {
			label := string(c.Deliveries[0].Payload)
			e.equal("lapses of "+label, c.Lapses, want[label])
			e.equal("attempt of "+label, c.Deliveries[0].Attempt, 1)
			e.equal("crashed: "+label, c.Crashed(), label == "s 0")
			r.deliver(c.Deliveries...)
			got++
		}
	}
	e.equal("what is left", e.counts(), Counts{})
}

func crashedStaysSuspect(e *env) {
	e.lapsedTwice(msg("a", "k", "poison"))
	for attempt := 1; attempt <= 2; attempt++ {
		e.relay().takesSuspect("poison", outbox.SuspectLapses)
		e.lapse()
		r := e.relay()
		d := r.takesSuspect("poison", outbox.SuspectLapses+1)
		e.equal("attempt", d.Attempt, attempt)
		if attempt == 2 {
			r.settled(crashed(outbox.Died, d, 0))
			break
		}
		r.settled(crashed(outbox.Retried, d, time.Minute))
		r.takesNothing()
		e.lapse()
		e.publish(msg("a", "", "fresh"), msg("a", "k", "behind"))
		r = e.relay()
		r.deliver(r.pickOut("fresh", 0))
		e.lapse()
	}
	e.equal("dead letters", len(e.dead()), 1)
	e.equal("its class", e.dead()[0].Class, outbox.ClassCrash)
	e.equal("its attempts", e.dead()[0].Attempts, 2)
	r := e.relay()
	e.equal("behind it", r.drain(1), []string{"behind"})
}

// pickOut claims until the message of the label has come, and gives back all others.
func (r *relay) pickOut(label string, lapses int) *outbox.Delivery {
	r.e.Helper()
	var picked *outbox.Delivery
	for patiently := r.e.patiently(); ; patiently() {
		for _, c := range r.claim().Claims {
			if c.Suspect() {
				r.e.equal("messages in the claim of a suspect", len(c.Deliveries), 1)
			}
			for _, d := range c.Deliveries {
				if string(d.Payload) == label {
					r.e.equal("lapses of "+label, c.Lapses, lapses)
					picked = d
					continue
				}
				r.settled(outcome(outbox.GivenBack, d))
			}
		}
		if picked != nil {
			return picked
		}
		time.Sleep(pollPause)
	}
}

func failureEndsSuspicion(e *env) {
	e.lapsedTwice(msg("a", "", "failed"), msg("a", "k", "crashed"))
	r := e.relay()
	r.settled(retried(r.takesSuspect("failed", outbox.SuspectLapses), time.Second))
	r.settled(crashed(outbox.Retried, r.takesSuspect("crashed", outbox.SuspectLapses), time.Second))
	e.advance(2*time.Second, r)
	r.settled(retried(r.pickOut("crashed", outbox.SuspectLapses), time.Second))
	e.advance(2*time.Second, r)
	for _, c := range r.claimUntil(2) {
		e.equal("lapses after a failure", c.Lapses, 0)
	}
}

func givenBackStaysSuspect(e *env) {
	e.lapsedTwice(msg("a", "", "1"), msg("a", "k", "2"))
	r := e.relay()
	r.settled(outcome(outbox.GivenBack, r.takesSuspect("1", outbox.SuspectLapses)))
	r.takesSuspect("1", outbox.SuspectLapses)
	r.takesNothing()
	r.stop()
	other := e.relay()
	for _, label := range []string{"1", "2"} {
		d := other.takesSuspect(label, outbox.SuspectLapses)
		e.equal("attempt", d.Attempt, 1)
		other.deliver(d)
	}
}

func suspectsHoldKeys(e *env) {
	e.lapsedTwice(msg("a", "k", "1"), msg("a", "l", "2"), msg("a", "k", "3"), msg("b", "k", "4"))
	e.publish(msg("a", "k", "5"), msg("b", "l", "6"))
	r, other := e.relay(), e.relay()
	first := r.takesSuspect("1", outbox.SuspectLapses)
	second := other.takesSuspect("2", outbox.SuspectLapses)
	r.takesNothing()
	other.takesNothing()
	other.deliver(second)
	other.deliver(other.takes("6")...)
	other.takesNothing()
	r.deliver(first)
	e.equal("delivered", other.drain(3), []string{"3", "4", "5"})
}

func scheduledSuspect(e *env) {
	scheduled := msg("a", "k", "1")
	scheduled.Delay = time.Second
	e.publish(scheduled)
	e.advance(2 * time.Second)
	for range outbox.SuspectLapses {
		e.relay().take(1)
		e.lapse()
	}
	e.publish(msg("a", "k", "2"))
	r, other := e.relay(), e.relay()
	d := r.takesSuspect("1", outbox.SuspectLapses)
	r.takesNothing()
	other.takesNothing()
	r.settled(outcome(outbox.GivenBack, d))
	e.equal("delivered", other.drain(2), []string{"1", "2"})
}

func suspectBehindOlder(e *env) {
	older := e.lateCommit(msg("a", "k", "older"))
	e.lapsedTwice(msg("a", "k", "1"), msg("a", "k", "2"))
	e.publish(msg("a", "k", "3"))
	e.commit(older)
	r, other := e.relay(), e.relay()
	ds := r.takes("older")
	other.takesNothing()
	r.deliver(ds...)
	e.equal("delivered", other.drain(3), []string{"1", "2", "3"})
}

func suspectBehindRetry(e *env) {
	older := e.lateCommit(msg("a", "k", "older"))
	e.lapsedTwice(msg("a", "k", "1"), msg("a", "", "2"))
	e.commit(older)
	r := e.relay()
	r.settled(retried(r.pickOut("older", 0), time.Minute))
	e.equal("delivered", r.drain(1), []string{"2"})
	e.advance(2*time.Minute, r)
	e.equal("delivered later", r.drain(2), []string{"older", "1"})
}

func suspectsBesideFresh(e *env) {
	const n = 30
	var suspects, behind []outbox.Message
	for i := range n {
		suspects = append(suspects, msg("a", fmt.Sprint("k", i), "suspect"))
		behind = append(behind, msg("a", fmt.Sprint("k", i), "behind"))
	}
	e.lapsedTwice(suspects...)
	e.publish(behind...)
	e.publish(numbered(n, "fresh")...)
	r := e.relay()
	held := r.takesSuspect("suspect", outbox.SuspectLapses, limit(1))
	fresh := 0
	for patiently := e.patiently(); fresh < n; patiently() {
		ds := deliveries(r.claim(limit(5)).Claims)
		r.deliver(ds...)
		fresh += len(ds)
	}
	r.deliver(held)
	e.equal("the rest", len(r.drain(2*n-1)), 2*n-1)
}

func suspectWithinLimits(e *env) {
	e.lapsedTwice(msg("a", "", "0123456789"))
	e.publish(msg("a", "", "abcdefghij"), msg("a", "", "klmnopqrst"))
	r := e.relay()
	e.equal("messages within the limit", len(deliveries(r.claim(limit(1)).Claims)), 1)
	e.lapse()
	r = e.relay()
	e.equal("messages within the bytes", len(deliveries(r.claim(size(25)).Claims)), 2)
}
