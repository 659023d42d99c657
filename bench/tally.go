package main

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/outboxrelay/outbox"
)

// stall is how long nothing may be settled before the rest counts as lost.
const stall = 30 * time.Second

// tally notes which of the messages 1 to n were delivered and settled. Message i has key i modulo keys, and messages
// of a key are published in the order of their numbers. It is safe for concurrent use.
type tally struct {
	keys       int64
	seen       []atomic.Bool
	last       []atomic.Int64 // of each key
	distinct   atomic.Int64
	duplicates atomic.Int64
	disorder   atomic.Int64
	settled    atomic.Int64

	once sync.Once
	done chan struct{} // all are settled
}

func newTally(n, keys int) *tally {
	return &tally{keys: int64(keys), seen: make([]atomic.Bool, n+1), last: make([]atomic.Int64, keys),
		done: make(chan struct{})}
}

func (t *tally) messages() int { return len(t.seen) - 1 }

// deliver notes one delivery. A message that is delivered for the first time after a younger one of its key is out
// of order; a repeated one is a duplicate only.
func (t *tally) deliver(i int64) {
	if t.seen[i].Swap(true) {
		t.duplicates.Add(1)
		return
	}
	t.distinct.Add(1)
	if t.keys > 0 && t.last[i%t.keys].Swap(i) > i {
		t.disorder.Add(1)
	}
}

// hooks count settled messages.
func (t *tally) hooks() outbox.Hooks {
	return outbox.Hooks{Event: func(_ context.Context, e outbox.Event) {
		if e.Kind == outbox.EventSettled && e.Outcome.Kind == outbox.Delivered {
			t.settle()
		}
	}}
}

func (t *tally) settle() {
	if t.settled.Add(1) >= int64(t.messages()) {
		t.once.Do(func() { close(t.done) })
	}
}

// wait waits until all messages are settled, nothing has been for the time of a stall, or a relay has failed.
func (t *tally) wait(ctx context.Context, failed <-chan error, limit time.Duration) error {
	ticks := time.NewTicker(limit)
	defer ticks.Stop()
	for before := int64(-1); ; {
		select {
		case <-t.done:
			return nil
		case err := <-failed:
			return fmt.Errorf("a relay ended early: %w", err)
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-ticks.C:
			now := t.settled.Load()
			if now == before {
				return nil // the faults tell
			}
			before = now
		}
	}
}

// faults are what is wrong, given how many messages the database holds at the end.
func (t *tally) faults(left int64) faults {
	lost := int64(t.messages()) - t.distinct.Load()
	return faults{lost: max(lost, left), duplicates: t.duplicates.Load(), disorder: t.disorder.Load()}
}
