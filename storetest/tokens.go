package storetest

import "github.com/outboxrelay/outbox"

func tokenCases() []Case {
	return []Case{
		{"the first beat that does not name a token keeps its claim, the second gives it back", AtLeastOnce, lostAnswer},
		{"a claim whose token is named is kept for ever", NoDouble, namedTokensAreKept},
		{"a beat gives back only what its own relay has forgotten", NoDouble, othersClaimsAreKept},
		{"a beat that was overtaken by a later one changes nothing", NoDouble, overtakenBeat},
		{"a claim's id is never used again", NoDouble, claimIDsAreUnique},
	}
}

func lostAnswer(e *env) {
	r, other := e.relay(), e.relay()
	r.beat()
	e.publish(msg("a", "", "1"), msg("a", "k", "2"))
	lost := r.take(2)
	r.known = nil
	r.beat()
	other.takesNothing()
	r.beat()
	for _, c := range other.claimUntil(2) {
		e.equal("lapses", c.Lapses, 0)
		e.equal("attempt", c.Deliveries[0].Attempt, 1)
	}
	e.fenced(r, lost...)
	e.equal("claims of the living relay", len(r.claim().Claims), 0)
}

func namedTokensAreKept(e *env) {
	r, other := e.relay(), e.relay()
	e.publish(msg("a", "", "1"), msg("a", "k", "2"))
	ds := append(r.take(1, limit(1)), r.take(1)...)
	for range 6 {
		r.beat()
		other.takesNothing()
	}
	r.deliver(ds...)
}

func othersClaimsAreKept(e *env) {
	r, other := e.relay(), e.relay()
	e.publish(msg("a", "", "1"))
	ds := r.takes("1")
	for range 3 {
		other.beat()
	}
	other.takesNothing()
	r.deliver(ds...)
}

// overtakenBeat: a request that was held up on its way knows less than the one that overtook it.
func overtakenBeat(e *env) {
	r, other := e.relay(), e.relay()
	r.info.Beat++
	late, knew := r.info, r.known
	e.publish(msg("a", "", "1"))
	ds := r.takes("1")
	r.beat()
	_, err := r.store.Beat(e.ctx, late, knew)
	e.must(err)
	other.takesNothing()
	r.beat()
	r.deliver(ds...)
}

func claimIDsAreUnique(e *env) {
	r := e.relay()
	e.publish(msg("a", "k", "1"))
	var old []*outbox.Delivery
	for range 4 {
		d := r.takes("1")[0]
		for _, before := range old {
			if d.Claim == before.Claim {
				e.Fatalf("two claims are called %v", d.Claim)
			}
			e.fenced(r, before)
		}
		old = append(old, d)
		r.settled(outcome(outbox.GivenBack, d))
	}
}
