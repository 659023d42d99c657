package storetest

import (
	"time"

	"github.com/outboxrelay/outbox"
)

func parkCases() []Case {
	return []Case{
		{"a parked key holds what follows, ready and waiting", OrderPerKey, parkedHoldsFollowers},
		{"a message that is parked after retries holds its key", OrderPerKey, parkedAfterRetry},
		{"followers of a head that is parked leave the list with it", OrderPerKey, parkedFollowersAreReady},
		{"a parked key stays held when relays come and go", OrderPerKey, parkedOutlivesRelays},
		{"a parked message holds nothing older", Prompt, parkedHoldsNothingOlder},
		{"a parked key is held in its destination only", Prompt, parkedInItsDestination},
		{"a parked key does not hold back messages without order", Prompt, parkedPassesUnordered},
		{"a dead message without a key holds nothing", Prompt, parkedWithoutKey},
		{"a dead message that is not parked frees its key, though it held it while it waited", Prompt, diedAfterRetryFreesKey},
	}
}

// parked makes a message dead and leaves its key held.
func parked(d *outbox.Delivery) outbox.Outcome {
	o := outcome(outbox.Died, d)
	o.Holds = true
	return o
}

func parkedHoldsFollowers(e *env) {
	r, other := e.relay(), e.relay()
	e.publish(msg("a", "k", "1"), msg("a", "k", "2"))
	e.publish(outbox.Message{Topic: "a", Key: "k", Payload: []byte("scheduled"), Delay: 10 * time.Second})
	ds := r.takes("1", "2")
	r.settled(parked(ds[0]), outcome(outbox.Unlisted, ds[1]))
	e.publish(msg("a", "k", "3"), msg("b", "k", "4"), msg("a", "l", "free"))
	r.deliver(r.takes("free")...)
	r.takesNothing()
	e.advance(time.Hour, r, other)
	other.takesNothing()
	r.takesNothing()
	e.equal("what is left", e.counts(), Counts{Ready: 3, Waiting: 1, Dead: 1})
	e.equal("is the key held", e.dead()[0].Holds, true)
}

func parkedAfterRetry(e *env) {
	r := e.relay()
	e.publish(msg("a", "k", "1"), msg("a", "k", "2"))
	ds := r.takes("1", "2")
	r.settled(retried(ds[0], time.Second), outcome(outbox.Unlisted, ds[1]))
	e.advance(2*time.Second, r)
	d := r.take(1, limit(1))[0]
	e.equal("the head", string(d.Payload), "1")
	r.settled(parked(d))
	r.takesNothing()
	e.equal("what is left", e.counts(), Counts{Ready: 1, Dead: 1})
	e.equal("is the key held", e.dead()[0].Holds, true)
}

func parkedFollowersAreReady(e *env) {
	r, other := e.relay(), e.relay()
	ms, _ := run(5)
	e.publish(ms...)
	ds := r.take(5)
	r.settled(append([]outbox.Outcome{parked(ds[0])}, outcomes(outbox.Unlisted, ds[1:]...)...)...)
	e.equal("what is left", e.counts(), Counts{Ready: 4, Dead: 1})
	e.lapse(other)
	other.takesNothing()
	e.equal("what is left when their relay has died", e.counts(), Counts{Ready: 4, Dead: 1})
}

func parkedOutlivesRelays(e *env) {
	r := e.relay()
	e.publish(msg("a", "k", "1"), msg("a", "k", "2"))
	ds := r.takes("1", "2")
	r.settled(parked(ds[0]), outcome(outbox.GivenBack, ds[1]))
	r.stop()
	next := e.relay()
	next.takesNothing()
	e.lapse()
	e.relay().takesNothing()
}

func parkedHoldsNothingOlder(e *env) {
	r := e.relay()
	_, appear := e.late(msg("a", "k", "older"))
	e.publish(msg("a", "k", "younger"), msg("a", "k", "youngest"))
	ds := r.takes("younger", "youngest")
	r.settled(parked(ds[0]), outcome(outbox.Unlisted, ds[1]))
	appear(r)
	r.deliver(r.takes("older")...)
	r.takesNothing()
}

func parkedInItsDestination(e *env) {
	r, other := e.relay(lane("one", "a")), e.relay(lane("two", "b"))
	e.publish(msg("a", "k", "for one"), msg("b", "k", "for two"))
	r.settled(parked(r.takes("for one")[0]))
	other.deliver(other.takes("for two")...)
	e.publish(msg("b", "k", "next for two"), msg("a", "k", "next for one"))
	other.takes("next for two")
	r.takesNothing()
	// A topic that nobody delivers there any more holds nothing.
	e.publish(msg("c", "k", "another for one"))
	e.advance(lease/2, other)
	e.advance(lease, other)
	e.relay(lane("one", "c")).takes("another for one")
}

func parkedPassesUnordered(e *env) {
	unordered := lane(defaultLane, ">")
	unordered.Unordered = topics("free")
	r := e.relay(unordered)
	e.publish(msg("a", "k", "1"))
	r.settled(parked(r.takes("1")[0]))
	e.publish(msg("a", "k", "2"), msg("free", "k", "3"))
	r.settled(parked(r.takes("3")[0]))
	r.takesNothing()
	// Nor does a dead one of such a topic hold its key.
	e.publish(msg("free", "l", "4"))
	r.settled(parked(r.takes("4")[0]))
	e.publish(msg("a", "l", "5"))
	r.takes("5")
}

func parkedWithoutKey(e *env) {
	r := e.relay()
	e.publish(msg("a", "", "1"))
	r.settled(parked(r.takes("1")[0]))
	e.equal("is a key held", e.dead()[0].Holds, false)
	e.publish(msg("a", "", "2"))
	r.takes("2")
}

func diedAfterRetryFreesKey(e *env) {
	r := e.relay()
	e.publish(msg("a", "k", "1"))
	r.settled(retried(r.takes("1")[0], 0))
	r.settled(outcome(outbox.Died, r.takes("1")[0]))
	e.equal("is the key held", e.dead()[0].Holds, false)
	e.publish(msg("a", "k", "2"))
	r.takes("2")
}
