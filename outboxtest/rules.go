package outboxtest

import (
	"slices"
	"time"

	"github.com/outboxrelay/outbox"
)

// rules are the decisions on which the guarantees rest. They are gathered here as functions, so that a test
// can show the conformance suite a store that has one of them wrong, and see it fail.
type rules struct {
	// lapsed: the relay's claims may be taken over.
	lapsed func(r *relay, now time.Time) bool
	// forgotten: the relay does not know of its claim, since it is older than the heartbeat before this one
	// and not named. The answer of a claim may be lost; without this rule its lease would be extended for ever.
	forgotten func(c *claim, beat int64, known []outbox.Token) bool
	// overtaken: a later heartbeat of the relay has come before this one, which knows less.
	overtaken func(beat, latest int64) bool
	// owns: the claim is still the one that the reference means, and still the relay's. The fence.
	owns func(c *claim, ref outbox.ClaimRef) bool
	// ownsInTx: the same, for a handler that settles in its own transaction.
	ownsInTx func(c *claim, ref outbox.ClaimRef) bool
	// keeps: a handler's open transaction keeps the claim from being taken over.
	keeps func(c *claim) bool
	// takes: the lane may claim the message, if it is due: no live relay holds it, the lane handles its topic.
	takes func(p *pick, r *row) bool
	// blocks: a claim of a live relay keeps a lane of the destination from claiming the key.
	blocks func(c *claim, key, destination string) bool
	// inOrder: a message that cannot be taken ends the run of its key all the same. Topics that nobody handles
	// hold no key.
	inOrder func(p *pick, r *row) bool
	// sameClaim: messages of these two lapse counts may share a claim.
	sameClaim func(a, b int) bool
	// suspect: messages of this lapse count are claimed one at a time.
	suspect func(lapses int) bool
	// mayTakeSuspect: the relay holds no suspect.
	mayTakeSuspect func(p *pick) bool
	// leads: nothing of its key keeps the suspect from being taken.
	leads func(p *pick, r *row) bool
	// nextClaim returns the id of a new claim, never used before.
	nextClaim func(b *box) int64
	// heldLive: a live relay holds the message, so an operator leaves it alone.
	heldLive func(b *box, r *row, now time.Time) bool
	// fences: who lists a message that is discarded must not settle it any more.
	fences func(b *box, r *row)
	// honours: a settlement discards what an operator waits for.
	honours func(op *operation, r *row) bool
	// meant: the message is for the destination. One that was replayed has only one.
	meant func(r *row, destination string) bool
	// strands: the message is bound to a destination where no live relay would take it.
	strands func(b *box, r *row) bool
	// purges: a purge takes a message of this state, that may hold its key.
	purges func(s outbox.State, holds bool, c outbox.Change) bool
	// archived: what is kept of a message that has ended.
	archived func(b *box, a *Archived)
	// pauses: the pause covers a topic in a destination.
	pauses func(p outbox.Pause, topic, destination string) bool
}

func soundRules() rules {
	return rules{
		lapsed: func(r *relay, now time.Time) bool { return !now.Before(r.leaseUntil) },
		forgotten: func(c *claim, beat int64, known []outbox.Token) bool {
			return c.beat < beat && !slices.Contains(known, c.token)
		},
		overtaken: func(beat, latest int64) bool { return beat < latest },
		owns: func(c *claim, ref outbox.ClaimRef) bool {
			return c != nil && c.relay == ref.Relay && !c.relay.IsZero()
		},
		ownsInTx: func(c *claim, ref outbox.ClaimRef) bool {
			return c != nil && c.relay == ref.Relay && !c.relay.IsZero()
		},
		keeps: func(c *claim) bool { return c.settling > 0 },
		takes: func(p *pick, r *row) bool {
			return r.isFree(p.box) && p.box.rules.meant(r, p.query.Destination) && p.lane.Topics.Contains(r.Topic) && !p.query.Closed.Contains(r.Topic) &&
				!p.box.isPaused(r.Topic, p.query.Destination)
		},
		blocks: func(c *claim, key, destination string) bool {
			return c.destination == destination && c.holds(key)
		},
		inOrder: func(p *pick, r *row) bool {
			return r.holdsKey() && p.box.rules.meant(r, p.query.Destination) && p.box.isOrdered(r.Topic, p.query.Destination)
		},
		sameClaim: func(a, b int) bool { return (a > 0) == (b > 0) },
		suspect:   func(lapses int) bool { return lapses >= outbox.SuspectLapses },
		mayTakeSuspect: func(p *pick) bool {
			for _, c := range p.box.claims {
				if c.relay == p.query.Relay && c.lapses >= outbox.SuspectLapses {
					return false
				}
			}
			return true
		},
		leads: func(p *pick, r *row) bool {
			key := p.keyOf(r)
			return key == "" || !p.isHeld(key) && p.line(key)[0] == r
		},
		nextClaim: func(b *box) int64 {
			b.lastClaim++
			return b.lastClaim
		},
		heldLive: func(b *box, r *row, now time.Time) bool {
			if r.claim == nil {
				return false
			}
			holder := b.relays[r.claim.relay]
			return holder != nil && !b.rules.lapsed(holder, now) || b.rules.keeps(r.claim)
		},
		meant: func(r *row, destination string) bool { return r.destination == "" || r.destination == destination },
		strands: func(b *box, r *row) bool {
			return r.destination != "" && b.liveRelays() > 0 && len(b.destinationsOf(r)) == 0
		},
		purges:   func(_ outbox.State, holds bool, c outbox.Change) bool { return !holds || c.Holding },
		archived: func(*box, *Archived) {},
		fences:   func(b *box, r *row) { b.takeFrom(r.claim, r) },
		honours:  func(op *operation, r *row) bool { return op.report.Waiting && op.awaited[r.seq] },
		pauses: func(p outbox.Pause, topic, destination string) bool {
			return p.Topic != "" && outbox.MatchTopic(p.Topic, topic) || p.Destination != "" && p.Destination == destination
		},
	}
}
