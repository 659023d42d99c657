package storetest

import (
	"github.com/outboxrelay/outbox"
)

func givenBackCases() []Case {
	return []Case{
		{"what is given back is offered first, without lapse or attempt", AtLeastOnce, givenBackFirst},
		{"giving back keeps the lapses", AttemptsCount, givenBackKeepsLapses},
		{"giving back a part keeps the rest claimed", NoDouble, givenBackPart},
		{"a given-back message holds its key", OrderPerKey, givenBackHoldsKey},
		{"a given-back follower waits for the head in delivery", OrderPerKey, givenBackFollower},
		{"a given-back message joins an older one that appeared meanwhile", OrderPerKey, givenBackBehindOlder},
	}
}

func givenBackFirst(e *env) {
	r, other := e.relay(), e.relay()
	_, appear := e.late(msg("a", "", "older"))
	e.publish(msg("a", "", "given back"))
	ds := r.takes("given back")
	appear(r, other)
	r.settled(outcomes(outbox.GivenBack, ds...)...)
	c := other.claimUntil(1, limit(1))[0]
	e.equal("claimed first", labels(c.Deliveries), []string{"given back"})
	e.equal("lapses", c.Lapses, 0)
	e.equal("attempt", c.Deliveries[0].Attempt, 1)
	e.fenced(r, ds...)
	other.takes("older")
}

func givenBackKeepsLapses(e *env) {
	r, other := e.relay(), e.relay()
	e.publish(msg("a", "", "poison"))
	r.takes("poison")
	e.lapse(other)
	other.settled(outcomes(outbox.GivenBack, other.takes("poison")...)...)
	c := other.claimUntil(1)[0]
	e.equal("lapses", c.Lapses, 1)
	e.equal("attempt", c.Deliveries[0].Attempt, 1)
}

func givenBackPart(e *env) {
	r, other := e.relay(), e.relay()
	e.publish(msg("a", "", "1"), msg("a", "", "2"), msg("a", "", "3"))
	byLabel := map[string]*outbox.Delivery{}
	for _, d := range r.take(3) {
		byLabel[string(d.Payload)] = d
	}
	r.settled(outcome(outbox.GivenBack, byLabel["2"]))
	other.takes("2")
	other.takesNothing()
	e.refused(r, outbox.SettledBefore, byLabel["2"])
	r.deliver(byLabel["1"], byLabel["3"])
}

func givenBackHoldsKey(e *env) {
	r := e.relay(lane(defaultLane, "a", "b"))
	b := e.relay(lane(defaultLane, "b"))
	e.publish(msg("a", "k", "1"), msg("b", "k", "2"))
	ds := r.take(2)
	r.settled(outcomes(outbox.GivenBack, ds...)...)
	b.takesNothing()
	e.publish(msg("b", "k", "3"))
	b.takesNothing()
	e.equal("delivered", r.drain(3), []string{"1", "2", "3"})
}

func givenBackFollower(e *env) {
	r, other := e.relay(), e.relay()
	e.publish(msg("a", "k", "1"), msg("a", "k", "2"))
	ds := r.takes("1", "2")
	r.settled(outcome(outbox.GivenBack, ds[1]))
	other.takesNothing()
	r.takesNothing()
	r.deliver(ds[0])
	other.takes("2")
}

func givenBackBehindOlder(e *env) {
	r, other := e.relay(), e.relay()
	_, appear := e.late(msg("a", "k", "1"))
	e.publish(msg("a", "k", "2"))
	ds := r.takes("2")
	appear(r, other)
	r.settled(outcomes(outbox.GivenBack, ds...)...)
	e.equal("delivered", other.drain(2), []string{"1", "2"})
}
