package outbox_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/outboxrelay/outbox"
	"github.com/outboxrelay/outbox/outboxtest"
)

// TestRandomFaults: several relays whose calls of the store fail before or after they took effect, and that are
// stopped and started. Everything is delivered, in order per key, and unless a lease was lost once only.
func TestRandomFaults(t *testing.T) {
	for i := range 8 {
		seed := uint64(time.Now().UnixNano()) + uint64(i)
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { testRandomFaults(t, newWorld(t, seed)) })
		})
	}
}

// world is the shared state of a random test.
type world struct {
	t     *testing.T
	store *outboxtest.Store
	evs   events
	sink  outbox.Sink // nil: the world itself
	// pipelined: a failure may reorder what was in one call with it
	pipelined bool
	calling   map[string]int // calls under way, per key

	mu   sync.Mutex
	rnd  *rand.Rand
	next map[string]int // per key: the payload that may be delivered next
	done map[outbox.ID]int
}

func newWorld(t *testing.T, seed uint64) *world {
	return &world{t: t, store: outboxtest.NewStore(), rnd: rand.New(rand.NewPCG(seed, 1)),
		next: map[string]int{}, done: map[outbox.ID]int{}, calling: map[string]int{}}
}

func (w *world) pick(n int) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.rnd.IntN(n)
}

// fails: once in n times.
func (w *world) fails(n int) error {
	if w.pick(n) == 0 {
		return errDown
	}
	return nil
}

// Deliver accepts most messages, and checks the order of those that it accepts.
func (w *world) Deliver(_ context.Context, d *outbox.Delivery) error {
	n, err := strconv.Atoi(string(d.Payload))
	if err != nil {
		return outbox.Permanent(err)
	}
	w.mu.Lock()
	if d.Key != "" && n > w.next[d.Key] && !w.pipelined {
		w.t.Errorf("key %s: %d before %d", d.Key, n, w.next[d.Key])
	}
	w.mu.Unlock()
	time.Sleep(time.Millisecond)
	if err := w.fails(20); err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.done[d.ID]++
	w.next[d.Key] = max(w.next[d.Key], n+1)
	return nil
}

// faulty is another process's view of the store, with calls that fail.
func (w *world) faulty() *faultyStore {
	peer := w.store.Peer()
	f := &faultyStore{Store: peer}
	f.claim = func(ctx context.Context, q outbox.ClaimQuery) (outbox.Batch, error) {
		return faultyCall(w, 20, func() (outbox.Batch, error) { return peer.Claim(ctx, q) })
	}
	f.settle = func(ctx context.Context, os []outbox.Outcome) ([]outbox.Settled, error) {
		return faultyCall(w, 10, func() ([]outbox.Settled, error) { return peer.Settle(ctx, os) })
	}
	f.beat = func(ctx context.Context, info outbox.RelayInfo, known []outbox.Token) (outbox.Orders, error) {
		return faultyCall(w, 4, func() (outbox.Orders, error) { return peer.Beat(ctx, info, known) })
	}
	return f
}

// faultyCall fails once in n times before the call, and as often after it took effect.
func faultyCall[T any](w *world, n int, call func() (T, error)) (res T, err error) {
	var none T
	if err := w.fails(n); err != nil {
		return none, err
	}
	if res, err = call(); err != nil {
		return none, err
	}
	if err := w.fails(n); err != nil {
		return none, err
	}
	return res, nil
}

func (w *world) startRelay() *runner {
	sink := w.sink
	if sink == nil {
		sink = w
	}
	return start(w.t, w.faulty(), outbox.To(sink), outbox.Config{
		MaxAttempts: outbox.Unlimited, Lease: 3 * time.Second, Hooks: w.evs.hooks(),
		Retry: outbox.RetryPolicy{Base: 10 * time.Millisecond, Max: 100 * time.Millisecond},
	})
}

func testRandomFaults(t *testing.T, w *world) {
	const relays, keys, total = 4, 10, 1500
	running := make([]*runner, relays)
	for i := range running {
		running[i] = w.startRelay()
	}
	published := map[string]int{}
	for i := range total {
		key := ""
		if k := w.pick(keys + 2); k < keys {
			key = fmt.Sprint("k", k)
		}
		publish(t, w.store, message("a", key, strconv.Itoa(published[key])))
		published[key]++
		time.Sleep(2 * time.Millisecond)
		if i%300 == 299 {
			at := i / 300 % relays
			running[at].mustStop()
			running[at] = w.startRelay()
		}
	}
	time.Sleep(time.Minute)
	for _, r := range running {
		r.mustStop()
	}
	w.check(total)
}

func (w *world) check(total int) {
	if c := w.store.Counts(); c.Delivered != total || c.Claimed != 0 {
		w.t.Errorf("%+v", c)
	}
	for id, n := range w.done {
		if n == 0 || n > 1 && w.evs.count(outbox.EventLeaseLost) == 0 {
			w.t.Errorf("message %v accepted %d times", id, n)
		}
	}
}
