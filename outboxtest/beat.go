package outboxtest

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/outboxrelay/outbox"
)

// relay is a registered relay: its last heartbeat and what it bought.
type relay struct {
	info       outbox.RelayInfo
	leaseUntil time.Time
	seen       time.Time
}

func (r *relay) lane(destination string) (outbox.LaneInfo, bool) {
	i := slices.IndexFunc(r.info.Lanes, func(l outbox.LaneInfo) bool { return l.Destination == destination })
	if i < 0 {
		return outbox.LaneInfo{}, false
	}
	return r.info.Lanes[i], true
}

// Beat registers a relay or extends its lease.
func (s *Store) Beat(ctx context.Context, info outbox.RelayInfo, known []outbox.Token) (outbox.Orders, error) {
	if err := ctx.Err(); err != nil {
		return outbox.Orders{}, err
	}
	b := s.box
	b.mu.Lock()
	defer b.mu.Unlock()
	current := b.relays[info.ID]
	registers := info.Beat == 0 && !info.Stopping
	switch {
	case info.Stopping && current != nil:
		b.giveBack(info.ID, func(c *claim) bool { return !slices.Contains(known, c.token) })
		if !b.holdsAny(info.ID) {
			delete(b.relays, info.ID)
		}
		return outbox.Orders{}, nil
	case current == nil && !registers:
		return outbox.Orders{}, fmt.Errorf("heartbeat of relay %s: %w", info.ID, outbox.ErrLeaseLost)
	case current != nil && b.rules.overtaken(info.Beat, current.info.Beat):
		return outbox.Orders{}, nil
	case current != nil:
		b.giveBack(info.ID, func(c *claim) bool { return b.rules.forgotten(c, current.info.Beat, known) })
	}
	now := b.now()
	info.Lanes = slices.Clone(info.Lanes)
	b.relays[info.ID] = &relay{info: info, leaseUntil: now.Add(info.Lease), seen: now}
	if registers {
		return outbox.Orders{Holders: b.holders(info.ID, now)}, nil
	}
	return outbox.Orders{}, nil
}

// giveBack takes claims from their relay. Their messages stay listed, which holds their keys for whoever
// comes first, and no lapse is counted.
func (b *box) giveBack(relay outbox.ID, chosen func(*claim) bool) {
	for _, c := range b.claims {
		if c.relay == relay && chosen(c) {
			c.relay = outbox.ID{}
			b.notify()
		}
	}
}

func (b *box) holdsAny(relay outbox.ID) bool {
	for _, c := range b.claims {
		if c.relay == relay {
			return true
		}
	}
	return false
}

// holders lists the relays other than the asking one that hold messages.
func (b *box) holders(asking outbox.ID, now time.Time) []outbox.Holder {
	var holders []outbox.Holder
	for id, r := range b.relays {
		h := outbox.Holder{
			Relay: id, Host: r.info.Host, PID: r.info.PID,
			Seen: now.Sub(r.seen), LeaseLeft: r.leaseUntil.Sub(now),
		}
		for _, c := range b.claims {
			if c.relay == id {
				h.Messages += len(c.rows)
			}
		}
		if id != asking && h.Messages > 0 {
			holders = append(holders, h)
		}
	}
	return holders
}

// removeLapsed removes the relays whose lease is over. Their claims keep their name until somebody takes
// messages from them, so a late settlement still counts.
func (b *box) removeLapsed(now time.Time) {
	for id, r := range b.relays {
		if b.rules.lapsed(r, now) {
			delete(b.relays, id)
		}
	}
}
