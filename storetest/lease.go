package storetest

import (
	"context"
	"slices"
	"time"

	"github.com/outboxrelay/outbox"
)

func leaseCases() []Case {
	return []Case{
		{"a claimed message is invisible for as long as its relay lives", NoDouble, invisibleWhileAlive},
		{"a lapsed relay's messages are claimable, with the lapse counted and no attempt", AtLeastOnce, lapsed},
		{"lapses add up", AttemptsCount, lapsesAddUp},
		{"every relay has a lease of its own length", NoDouble, leaseLengths},
		{"an unknown relay can neither claim nor beat", NoDouble, unknownRelay},
		{"a lapsed relay can neither claim nor, once that was seen, beat", NoDouble, lapsedRelayIsRefused},
		{"a stopping relay gives everything back", AtLeastOnce, stoppingGivesBack},
		{"a stopping relay keeps the claims that it names until its lease lapses", NoDouble, stoppingKeepsNamed},
		{"a registration learns who holds messages", Prompt, holdersAreNamed},
		{"a call with an ended context changes nothing", Atomic, endedContext},
	}
}

func invisibleWhileAlive(e *env) {
	r, other := e.relay(), e.relay()
	e.publish(msg("a", "", "one"), msg("a", "k", "two"))
	ds := r.take(2)
	for range 5 {
		e.advance(lease*9/10, r, other)
		other.takesNothing()
		r.takesNothing()
	}
	r.deliver(ds...)
}

// lapse ends the lease of every relay but the living.
func (e *env) lapse(living ...*relay) {
	e.Helper()
	e.advance(lease+time.Second, living...)
}

func lapsed(e *env) {
	r, other := e.relay(), e.relay()
	e.publish(msg("a", "", "one"), msg("a", "k", "two"))
	r.take(2)
	e.lapse(other)
	for _, c := range other.claimUntil(2) {
		e.equal("lapses", c.Lapses, 1)
		for _, d := range c.Deliveries {
			e.equal("attempt", d.Attempt, 1)
			e.equal("relay of the claim", d.Claim, c.Ref)
		}
		other.deliver(c.Deliveries...)
	}
	e.equal("what is left", e.counts(), Counts{})
}

func lapsesAddUp(e *env) {
	e.publish(msg("a", "k", "poison"))
	r := e.relay()
	r.take(1)
	for lapses := 1; lapses <= 2; lapses++ {
		next := e.relay()
		e.lapse(next)
		c := next.claimUntil(1)[0]
		e.equal("lapses", c.Lapses, lapses)
		e.equal("attempt", c.Deliveries[0].Attempt, 1)
	}
}

func leaseLengths(e *env) {
	short, long, other := e.relay(), e.unregistered(), e.relay()
	long.info.Lease = 10 * lease
	_, err := long.store.Beat(e.ctx, long.info, nil)
	e.must(err)
	e.publish(msg("a", "", "1"))
	short.takes("1")
	e.publish(msg("a", "", "2"))
	long.takes("2")
	e.lapse(other)
	other.takes("1")
	other.takesNothing()
	e.advance(9*lease, other)
	other.takes("2")
}

func unknownRelay(e *env) {
	r := e.unregistered()
	e.publish(msg("a", "", "one"))
	_, err := r.tryClaim()
	e.leaseLost("claim", err)
	e.leaseLost("beat", r.tryBeat())
	e.equal("what is kept", e.counts(), Counts{Ready: 1})
}

func lapsedRelayIsRefused(e *env) {
	r, other := e.relay(), e.relay()
	e.publish(msg("a", "", "one"))
	e.lapse(other)
	_, err := r.tryClaim()
	e.leaseLost("claim of the lapsed", err)
	other.takes("one")
	e.leaseLost("beat of the lapsed", r.tryBeat())
}

func stoppingGivesBack(e *env) {
	r, other := e.relay(), e.relay()
	e.publish(msg("a", "", "1"), msg("a", "k", "2"), msg("a", "k", "3"))
	ds := r.take(3)
	r.stop()
	for _, c := range other.claimUntil(3) {
		e.equal("lapses", c.Lapses, 0)
		for _, d := range c.Deliveries {
			e.equal("attempt", d.Attempt, 1)
		}
	}
	e.fenced(r, ds...)
	_, err := r.tryClaim()
	e.leaseLost("claim of the stopped", err)
}

func stoppingKeepsNamed(e *env) {
	r, other := e.relay(), e.relay()
	e.publish(msg("a", "", "1"), msg("a", "k", "2"), msg("a", "", "3"))
	running := r.take(1, limit(1))
	stuck := r.take(1, limit(1))
	named := slices.Clone(r.known[:2])
	rest := r.take(1)
	r.stop(named...)
	e.equal("given back", labels(other.take(1)), labels(rest))
	other.takesNothing()
	r.deliver(running...)
	e.lapse(other)
	c := other.claimUntil(1)[0]
	e.equal("taken over", labels(c.Deliveries), labels(stuck))
	e.equal("lapses", c.Lapses, 1)
	e.fenced(r, stuck...)
}

func holdersAreNamed(e *env) {
	r := e.relay()
	e.relay()
	e.publish(msg("a", "", "1"), msg("a", "", "2"))
	r.take(2)
	e.advance(10 * time.Second)
	asking := e.unregistered()
	orders, err := asking.store.Beat(e.ctx, asking.info, nil)
	e.must(err)
	i := slices.IndexFunc(orders.Holders, func(h outbox.Holder) bool { return h.Relay == r.info.ID })
	if i < 0 || len(orders.Holders) != 1 {
		e.Fatalf("holders %+v, want relay %s only", orders.Holders, r.info.ID)
	}
	h := orders.Holders[0]
	e.equal("messages held", h.Messages, 2)
	e.equal("host", h.Host, "host")
	e.equal("process", h.PID, 4711)
	if h.Seen < 10*time.Second || h.Seen > 20*time.Second || h.LeaseLeft > lease-10*time.Second || h.LeaseLeft <= 0 {
		e.Errorf("seen %v ago, %v of the lease left", h.Seen, h.LeaseLeft)
	}
}

func endedContext(e *env) {
	r := e.relay()
	e.publish(msg("a", "", "one"))
	d := r.takes("one")[0]
	ctx, cancel := context.WithCancel(e.ctx)
	cancel()
	q := outbox.ClaimQuery{Relay: r.info.ID, Destination: defaultLane, Token: outbox.NewID(), Limit: 1, Bytes: 1 << 20}
	if _, err := r.store.Claim(ctx, q); err == nil {
		e.Error("Claim succeeded")
	}
	if _, err := r.store.Settle(ctx, []outbox.Outcome{outcome(outbox.Delivered, d)}); err == nil {
		e.Error("Settle succeeded")
	}
	if _, err := r.store.Beat(ctx, e.unregistered().info, nil); err == nil {
		e.Error("Beat succeeded")
	}
	r.deliver(d)
}
