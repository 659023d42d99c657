package bench

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/outboxrelay/outbox"
)

// Tally notes which of the messages 1 to n were delivered and settled. Message i has key i modulo keys, and messages
// of a key are published in the order of their numbers. It is safe for concurrent use.
type Tally struct {
	keys       int64
	until      int64 // so many settled ones end the run
	seen       []atomic.Bool
	last       []atomic.Int64 // of each key
	distinct   atomic.Int64
	duplicates atomic.Int64
	disorder   atomic.Int64
	settled    atomic.Int64

	once sync.Once
	done chan struct{} // enough are settled
}

// NewTally expects n messages with so many keys.
func NewTally(n, keys int) *Tally {
	return &Tally{keys: int64(keys), until: int64(n), seen: make([]atomic.Bool, n+1), last: make([]atomic.Int64, keys),
		done: make(chan struct{})}
}

// Until ends the run when so many are settled; the rest stays in the outbox. Call it before anything is delivered.
func (t *Tally) Until(n int) { t.until = min(int64(n), t.messages()) }

func (t *Tally) messages() int64 { return int64(len(t.seen) - 1) }

// Deliver notes one delivery. A message that is delivered for the first time after a younger one of its key is out
// of order, and so is one that had to wait: its number is none of those expected. A repeated one is a duplicate only.
func (t *Tally) Deliver(i int64) {
	if i < 1 || i > t.messages() {
		t.disorder.Add(1)
		return
	}
	if t.seen[i].Swap(true) {
		t.duplicates.Add(1)
		return
	}
	t.distinct.Add(1)
	if t.keys > 0 && t.last[i%t.keys].Swap(i) > i {
		t.disorder.Add(1)
	}
}

// Hooks count settled messages.
func (t *Tally) Hooks() outbox.Hooks {
	return outbox.Hooks{Event: func(_ context.Context, e outbox.Event) {
		if e.Kind == outbox.EventSettled && e.Outcome.Kind == outbox.Delivered {
			t.Settle(1)
		}
	}}
}

// Settle notes that so many messages will not be delivered again.
func (t *Tally) Settle(n int) {
	if t.settled.Add(int64(n)) >= t.until {
		t.once.Do(func() { close(t.done) })
	}
}

// Done is closed when all are settled.
func (t *Tally) Done() <-chan struct{} { return t.done }

// Wait waits until all messages are settled, nothing has been for the time of a stall, or a relay has failed.
func (t *Tally) Wait(ctx context.Context, failed <-chan error, limit time.Duration) error {
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

// Unknown is a number of arrivals that nobody has counted.
const Unknown = -1

// Faults are what is wrong, given how many of the messages the database holds at the end, and how many the
// destination, where it counts them by itself.
func (t *Tally) Faults(left, arrived int64) Faults {
	n, distinct, repeated := t.messages(), t.distinct.Load(), t.duplicates.Load()
	f := Faults{Duplicates: repeated, Disorder: t.disorder.Load()}
	// Neither delivered nor there, or both: delivered and never settled.
	f.Lost = max(t.until-distinct, n-distinct-left, distinct+left-n)
	if arrived != Unknown {
		f.Lost = max(f.Lost, distinct-arrived)
		f.Duplicates = max(f.Duplicates, arrived-distinct)
	}
	return f
}

// Missing are faults of a run that only publishes, given how many messages are there beyond those committed.
func Missing(beyond int64) Faults { return Faults{Lost: max(0, -beyond), Duplicates: max(0, beyond)} }
