package outbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/outboxrelay/outbox/internal/failpoint"
)

// claimed is what one claim call means to the lane's loop.
type claimed struct {
	failed   bool
	hopeless bool          // trying again will not help
	more     bool          // claim again as soon as there is room
	starved  bool          // what is there does not fit beside what the lane holds
	idle     bool          // nothing there, while the lane held nothing that could free something
	nextDue  time.Duration // until the next waiting message is due; zero if none is known
}

// claim asks the store for at most limit messages and dispatches them.
//
// The token is known to the heartbeats from before the request until everything claimed under it is settled.
// When the request fails its messages may be held all the same: two heartbeats without the token, at once,
// give them back (TestClaimAnswerLost).
func (l *lane) claim(s *session, limit int) claimed {
	q, before := l.query(s, limit)
	s.know(q.Token)
	ctx, cancel := context.WithTimeout(s.claims, s.callTimeout())
	defer cancel()
	failpoint.Hit("claim.before")
	end := l.r.calls.begin("claim")
	batch, err := l.r.store.Claim(ctx, q)
	end()
	failpoint.Hit("claim.after")
	if err != nil {
		return l.claimFailed(s, q.Token, err)
	}
	l.backoff.reset()
	l.progressed()
	l.r.storeWorks("claim")
	l.complete(batch)
	if failpoint.Enabled && slices.ContainsFunc(batch.Claims, func(c Claim) bool { return c.Lapses > 0 }) {
		failpoint.Hit("takeover.after")
	}
	claims, n := hold(s, q.Token, batch)
	if n == 0 {
		s.forget(q.Token)
		l.r.firstClaim(l)
		return claimed{
			more: batch.More, starved: batch.Starved && l.starve(before.bytes),
			idle: !batch.More && !batch.Starved && before.empty, nextDue: batch.NextDue,
		}
	}
	l.lastWork = time.Now()
	l.r.event(Event{Kind: EventClaimed, Destination: l.name, Count: n})
	l.r.logSuspects(l, batch.Claims)
	l.dispatch(claims)
	l.r.firstClaim(l)
	return claimed{more: batch.More, nextDue: batch.NextDue}
}

// laneState is what the lane held when a claim was asked for.
type laneState struct {
	empty bool
	bytes int64
}

func (l *lane) query(s *session, limit int) (ClaimQuery, laneState) {
	closed := l.breaker.gate(time.Now()).closed
	l.mu.Lock()
	defer l.mu.Unlock()
	l.poked, l.starved = false, false
	l.freeSince = time.Now()
	return ClaimQuery{
		Relay: s.id, Destination: l.name, Token: NewID(), Limit: limit,
		Bytes: l.batchBytes - l.bytes, Oversized: l.held == 0, Closed: closed, TTL: l.ttl,
	}, laneState{l.held == 0 && l.unsettled == 0, l.bytes}
}

// starve makes the next release end the lane's wait, unless there has been one since the claim was asked for.
func (l *lane) starve(held int64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.starved = l.bytes >= held
	return l.starved
}

// complete gives messages what the route says for those that say nothing.
func (l *lane) complete(batch Batch) {
	if l.brokerTTL == 0 {
		return
	}
	for _, c := range batch.Claims {
		for _, d := range c.Deliveries {
			d.BrokerTTL = cmp.Or(d.BrokerTTL, l.brokerTTL)
		}
	}
}

// hold takes a batch into the relay's hands.
func hold(s *session, token Token, batch Batch) (claims []*heldClaim, n int) {
	g := &grip{token: token}
	for _, c := range batch.Claims {
		if len(c.Deliveries) > 0 {
			own := make([]ownSettle, len(c.Deliveries))
			for i, d := range c.Deliveries {
				d.own = &own[i]
			}
			claims = append(claims, &heldClaim{session: s, grip: g, ref: c.Ref, ds: c.Deliveries, suspect: c.Suspect(), crashed: c.Crashed()})
			n += len(c.Deliveries)
		}
	}
	g.left.Store(int32(n))
	return claims, n
}

func (l *lane) claimFailed(s *session, token Token, err error) claimed {
	s.forget(token)
	switch {
	case errors.Is(err, ErrLeaseLost):
		s.lose()
	case s.claims.Err() == nil:
		l.r.storeFailed("claim", err)
		s.beatTwice()
	}
	if !isFatal(err) {
		return claimed{failed: true}
	}
	l.r.setHopeless(fmt.Errorf("claim for %s: %w", l.name, err))
	return claimed{failed: true, hopeless: true}
}
