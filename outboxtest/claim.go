package outboxtest

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/outboxrelay/outbox"
)

// claim is one entry of the ledger: the messages that one relay took with one request, or, without a relay,
// messages that were given back. A message is claimed because a claim lists it; nothing is noted on a timer.
type claim struct {
	id          int64
	token       outbox.Token
	relay       outbox.ID // zero: nobody's
	beat        int64     // the relay's heartbeat when it claimed
	destination string
	lapses      int
	at          time.Time
	rows        []*row
	settling    int // messages that open transactions of handlers settle
}

func (c *claim) holds(key string) bool {
	return slices.ContainsFunc(c.rows, func(r *row) bool { return r.heldKey == key })
}

// row returns what the claim lists under this number, nil if nothing.
func (c *claim) row(seq int64) *row {
	if i := slices.IndexFunc(c.rows, func(r *row) bool { return r.seq == seq }); i >= 0 {
		return c.rows[i]
	}
	return nil
}

// lapsesWhenTaken is the count that a claim passes on: one more if its relay died, none if it gave back.
func (c *claim) lapsesWhenTaken() int {
	if c.relay.IsZero() {
		return c.lapses
	}
	return c.lapses + 1
}

// Claim takes messages for one lane: those of claims without a live relay first, then by publish order.
func (s *Store) Claim(ctx context.Context, q outbox.ClaimQuery) (outbox.Batch, error) {
	if err := ctx.Err(); err != nil {
		return outbox.Batch{}, err
	}
	b := s.box
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.now()
	b.removeLapsed(now)
	b.forgetEnded()
	r := b.relays[q.Relay]
	if r == nil {
		return outbox.Batch{}, fmt.Errorf("claim of relay %s: %w", q.Relay, outbox.ErrLeaseLost)
	}
	lane, ok := r.lane(q.Destination)
	if !ok {
		return outbox.Batch{}, fmt.Errorf("claim: relay %s has no lane %q", q.Relay, q.Destination)
	}
	p := &pick{box: b, query: q, lane: lane, now: now}
	p.fill()
	starved := p.more && len(p.rows) == 0
	batch := outbox.Batch{More: p.more && !starved, Starved: starved, NextDue: p.nextDue()}
	for _, rows := range p.split() {
		batch.Claims = append(batch.Claims, b.list(p, rows, r.info.Beat))
	}
	return batch, nil
}

// list enters a new claim into the ledger and takes its messages from the claims that listed them.
func (b *box) list(p *pick, rows []*row, beat int64) outbox.Claim {
	slices.SortFunc(rows, bySeq)
	c := &claim{
		id: b.rules.nextClaim(b), token: p.query.Token, relay: p.query.Relay,
		beat: beat, destination: p.query.Destination, rows: rows, at: p.now,
	}
	ref := outbox.ClaimRef{ID: c.id, Relay: c.relay}
	taken := outbox.Claim{Ref: ref}
	for _, r := range rows {
		c.lapses = max(c.lapses, r.suspicion)
		if r.claim != nil {
			c.lapses = max(c.lapses, b.takeFrom(r.claim, r))
		}
		r.claim, r.heldKey, r.holds = c, p.keyOf(r), true
		taken.Deliveries = append(taken.Deliveries, r.delivery(p.now, p.query.TTL, ref))
	}
	taken.Lapses = c.lapses
	b.claims[c.id] = c
	return taken
}

// takeFrom takes a message from a claim without a live relay and returns the lapses that come with it. What
// the claim still lists belongs to nobody from now on: its old relay is fenced for all of it.
func (b *box) takeFrom(c *claim, r *row) (lapses int) {
	c.lapses, c.relay = c.lapsesWhenTaken(), outbox.ID{}
	b.unlist(r)
	return c.lapses
}

// unlist removes a message from its claim, and the claim when it lists nothing any more.
func (b *box) unlist(r *row) {
	c := r.claim
	c.rows = slices.DeleteFunc(c.rows, func(other *row) bool { return other == r })
	r.claim, r.heldKey = nil, ""
	if len(c.rows) == 0 && b.claims[c.id] == c {
		delete(b.claims, c.id)
	}
}

// isLive reports whether the claim's relay is registered, or a handler's transaction keeps the claim. Only Claim asks,
// after it has removed the lapsed.
func (b *box) isLive(c *claim) bool { return b.relays[c.relay] != nil || b.rules.keeps(c) }

// isFree reports whether no live relay holds the message.
func (r *row) isFree(b *box) bool { return r.claim == nil || !b.isLive(r.claim) }

func (r *row) lapses() int {
	if r.claim == nil {
		return r.suspicion
	}
	return r.claim.lapsesWhenTaken()
}

func bySeq(a, b *row) int { return cmp.Compare(a.seq, b.seq) }
