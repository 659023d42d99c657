package storetest

import (
	"github.com/outboxrelay/outbox"
)

func takeoverCases() []Case {
	return []Case{
		{"a late settlement counts while nobody has taken over", NoDouble, lateSettleBeforeTakeover},
		{"a settlement after a takeover is fenced and changes nothing", NoDouble, settleAfterTakeover},
		{"a takeover of a part leaves the rest to whoever handles it", AtLeastOnce, partialTakeover},
		{"messages of a destination that is gone are taken by who handles their topic now", AtLeastOnce, destinationGone},
		{"messages of lapsed claims are not mixed with fresh ones", AttemptsCount, lapsedApart},
		{"a key with lapsed and fresh messages goes on with its head's kind only", OrderPerKey, lapsedHeadOfAKey},
	}
}

// fenced demands that no settlement of these messages by the relay takes effect any more.
func (e *env) fenced(r *relay, ds ...*outbox.Delivery) {
	e.Helper()
	e.refused(r, outbox.SettledFenced, ds...)
}

// refused demands that every settlement of these messages by the relay gets this answer and changes nothing.
func (e *env) refused(r *relay, want outbox.Settled, ds ...*outbox.Delivery) {
	e.Helper()
	before, deadBefore := e.counts(), e.dead()
	for kind := outbox.Delivered; kind <= outbox.GivenBack; kind++ {
		for i, answer := range r.settle(outcomes(kind, ds...)...) {
			if answer != want {
				e.Fatalf("outcome %v of message %d is %v, want %v", kind, ds[i].Seq, answer, want)
			}
		}
	}
	e.equal("counts after refused outcomes", e.counts(), before)
	e.equal("dead letters after refused outcomes", e.dead(), deadBefore)
}

func lateSettleBeforeTakeover(e *env) {
	r, other := e.relay(lane(defaultLane, "a")), e.relay(lane(defaultLane, "b"))
	e.publish(msg("a", "", "1"), msg("a", "k", "2"))
	ds := r.take(2)
	e.lapse(other)
	r.settled(outcome(outbox.Delivered, ds[0]))
	other.takesNothing()
	r.settled(outcome(outbox.Delivered, ds[1]))
	e.equal("what is left", e.counts(), Counts{})
}

func settleAfterTakeover(e *env) {
	r, other := e.relay(), e.relay()
	e.publish(msg("a", "", "1"), msg("a", "k", "2"))
	late := r.take(2)
	e.lapse(other)
	ds := other.take(2)
	e.fenced(r, late...)
	other.deliver(ds...)
	for _, answer := range r.settle(outcomes(outbox.Died, late...)...) {
		if answer == outbox.SettledNow {
			e.Error("the late settlement of a delivered message took effect")
		}
	}
	e.equal("what is left", e.counts(), Counts{})
}

func partialTakeover(e *env) {
	both := e.relay(lane(defaultLane, "a", "b"))
	a, b := e.relay(lane(defaultLane, "a")), e.relay(lane(defaultLane, "b"))
	e.publish(msg("a", "", "for a"), msg("b", "k", "for b"))
	late := both.take(2)
	e.lapse(a, b)
	a.takes("for a")
	e.fenced(both, late...)
	c := b.claimUntil(1)[0]
	e.equal("claimed", labels(c.Deliveries), []string{"for b"})
	e.equal("lapses", c.Lapses, 1)
	b.deliver(c.Deliveries...)
}

func destinationGone(e *env) {
	old := e.relay(lane("old", "a"))
	e.publish(msg("a", "k", "lapsed"), msg("a", "k", "given back"))
	ds := old.take(2)
	old.settled(outcome(outbox.GivenBack, ds[1]))
	renamed := e.relay(lane("new", "a"))
	e.lapse(renamed)
	e.equal("delivered", renamed.drain(2), []string{"lapsed", "given back"})
}

func lapsedApart(e *env) {
	r, other := e.relay(), e.relay()
	e.publish(msg("a", "", "lapsed"), msg("a", "k", "lapsed"), msg("b", "", "lapsed"))
	r.take(3)
	e.publish(msg("a", "", "fresh"), msg("a", "l", "fresh"), msg("b", "", "fresh"))
	e.lapse(other)
	for _, c := range other.claimUntil(6) {
		for _, d := range c.Deliveries {
			if (string(d.Payload) == "lapsed") != (c.Lapses > 0) {
				e.Errorf("a %s message is in a claim with %d lapses", d.Payload, c.Lapses)
			}
		}
	}
}

func lapsedHeadOfAKey(e *env) {
	r, other := e.relay(), e.relay()
	e.publish(msg("a", "k", "1"))
	r.takes("1")
	e.publish(msg("a", "k", "2"))
	e.lapse(other)
	first := other.claimUntil(1)[0]
	e.equal("claimed", labels(first.Deliveries), []string{"1"})
	e.equal("lapses of the head", first.Lapses, 1)
	other.takesNothing()
	other.deliver(first.Deliveries...)
	second := other.claimUntil(1)[0]
	e.equal("claimed", labels(second.Deliveries), []string{"2"})
	e.equal("lapses of the follower", second.Lapses, 0)
}
