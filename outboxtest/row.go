package outboxtest

import (
	"bytes"
	"maps"
	"time"

	"github.com/outboxrelay/outbox"
)

type state uint8

const (
	ready state = iota
	waiting
	dead
)

// states are what they are called outside.
var states = [...]outbox.State{outbox.StateReady, outbox.StateWaiting, outbox.StateDead}

// row is a message as it is kept. At most one claim lists it.
type row struct {
	outbox.Message
	seq         int64
	publishedAt time.Time
	expiresAt   time.Time // zero: never
	state       state
	availableAt time.Time // of a waiting one
	holds       bool      // a waiting one holds its key: it has been claimed before; a dead one: it is parked
	diedAt      time.Time
	attempts    int
	generation  int
	suspicion   int    // of one that waits after a crash: the lapses that its next claim begins with
	class, text string // of the last failure
	destination string // of one that was replayed: its only one

	claim   *claim
	heldKey string // the key that it holds through its claim; empty for order none

	settling *Tx // its handler's, while that is open
}

// isDue reports whether the message may be delivered now, as far as it alone is concerned.
func (r *row) isDue(now time.Time) bool {
	return r.state == ready || r.state == waiting && !r.availableAt.After(now)
}

// holdsKey reports whether younger messages of the key must wait for this one.
func (r *row) holdsKey() bool {
	return r.state == ready || r.holds
}

// postpone makes the message wait until t, never longer than it lives.
func (r *row) postpone(t time.Time) {
	if !r.expiresAt.IsZero() && t.After(r.expiresAt) {
		t = r.expiresAt
	}
	r.state, r.availableAt = waiting, t
}

// delivery is what a claim hands out. Bytes and headers are copies, as if read from a database, so nobody
// can change the message. The life is that of a message without an end of its own; zero: for ever.
func (r *row) delivery(now time.Time, ttl time.Duration, ref outbox.ClaimRef) *outbox.Delivery {
	d := &outbox.Delivery{
		Message: outbox.Message{
			ID: r.ID, Topic: r.Topic, Key: r.Key, Payload: bytes.Clone(r.Payload), DedupKey: r.DedupKey,
			ExpiresAt: r.expiresAt, BrokerTTL: r.BrokerTTL, MaxAttempts: r.MaxAttempts,
		},
		Seq:         r.seq,
		Attempt:     r.attempts + 1,
		Generation:  r.generation,
		PublishedAt: r.publishedAt,
		Claim:       ref,
	}
	d.SetHeaders(maps.Clone(r.Headers))
	end := r.expiresAt
	if end.IsZero() && ttl > 0 {
		end = r.publishedAt.Add(ttl)
	}
	if !end.IsZero() {
		d.Deadline = time.Now().Add(end.Sub(now))
	}
	return d
}
