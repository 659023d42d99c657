package outbox_test

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/outboxrelay/outbox"
	"github.com/outboxrelay/outbox/outboxtest"
)

// wait is what a slow store does before it answers, unless the call is given up.
func wait(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// slowStore takes its time for claims, settlements, the first heartbeat of each relay and the others.
func slowStore(call, first, beat time.Duration) *faultyStore {
	store := &faultyStore{Store: outboxtest.NewStore()}
	store.claim = func(ctx context.Context, q outbox.ClaimQuery) (outbox.Batch, error) {
		if err := wait(ctx, call); err != nil {
			return outbox.Batch{}, err
		}
		return store.Store.Claim(ctx, q)
	}
	store.settle = func(ctx context.Context, os []outbox.Outcome) ([]outbox.Settled, error) {
		if err := wait(ctx, call); err != nil {
			return nil, err
		}
		return store.Store.Settle(ctx, os)
	}
	store.beat = func(ctx context.Context, info outbox.RelayInfo, known []outbox.Token) (outbox.Orders, error) {
		took := beat
		if info.Beat == 0 {
			took = first
		}
		if err := wait(ctx, took); err != nil {
			return outbox.Orders{}, err
		}
		return store.Store.Beat(ctx, info, known)
	}
	return store
}

// TestShortLeaseBesideASlowStore: claims and settlements that take longer than the lease, and a connection that takes as long to be made, keep no
// relay from its work while its heartbeats are answered in time.
func TestShortLeaseBesideASlowStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, sink := slowStore(1500*time.Millisecond, 1500*time.Millisecond, 250*time.Millisecond), &outboxtest.Recorder{}
		var evs events
		publish(t, store.Store, messages(20, "a", "k")...)
		r := start(t, store, outbox.To(sink), outbox.Config{Lease: time.Second, Hooks: evs.hooks()})
		time.Sleep(30 * time.Second)
		r.mustStop()
		if c := store.Counts(); c.Delivered != 20 || len(sink.Deliveries()) != 20 {
			t.Errorf("%+v, %d deliveries", c, len(sink.Deliveries()))
		}
		if n := evs.count(outbox.EventLeaseLost); n != 0 {
			t.Errorf("the lease was lost %d times", n)
		}
	})
}

// TestSlowHeartbeats: where no lease can be kept the relay does not begin, and says what to set.
func TestSlowHeartbeats(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, log := slowStore(0, 500*time.Millisecond, 500*time.Millisecond), &bytes.Buffer{}
		publish(t, store.Store, message("a", "", "1"))
		var evs events
		cfg := outbox.Config{Lease: time.Second, Hooks: evs.hooks(), Logger: slog.New(slog.NewTextHandler(log, nil))}
		r := start(t, store, outbox.To(&outboxtest.Recorder{}), cfg)
		time.Sleep(30 * time.Second)
		r.mustStop()
		if want := "heartbeats take more than a third of the lease, 1s: make it longer"; !strings.Contains(log.String(), want) {
			t.Errorf("the log lacks %q:\n%s", want, log)
		}
		if store.Counts().Delivered != 0 || evs.count(outbox.EventLeaseLost) != 0 {
			t.Errorf("%+v, %d leases lost", store.Counts(), evs.count(outbox.EventLeaseLost))
		}
	})
}

// TestClaimAnsweredAfterTheLease: the answer of a claim comes when its lease has ended and another relay has the message. It is not sent, and a
// settlement that takes longer than the lease is refused.
func TestClaimAnsweredAfterTheLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &faultyStore{Store: outboxtest.NewStore()}
		var down atomic.Bool
		var once sync.Once
		store.beat = func(ctx context.Context, info outbox.RelayInfo, known []outbox.Token) (outbox.Orders, error) {
			if down.Load() {
				return outbox.Orders{}, errDown
			}
			return store.Store.Beat(ctx, info, known)
		}
		store.claim = func(ctx context.Context, q outbox.ClaimQuery) (batch outbox.Batch, err error) {
			batch, err = store.Store.Claim(ctx, q)
			if len(batch.Claims) > 0 {
				once.Do(func() {
					down.Store(true)
					time.Sleep(2500 * time.Millisecond) // the answer is on its way
				})
			}
			return batch, err
		}
		publish(t, store.Store, message("a", "", "1"))
		late, other := &outboxtest.Recorder{}, &outboxtest.Recorder{}
		r := start(t, store, outbox.To(late), outbox.Config{Lease: time.Second})
		time.Sleep(100 * time.Millisecond)
		if !down.Load() {
			t.Fatal("nothing was claimed")
		}
		peer := start(t, store.Store.Peer(), outbox.To(other), outbox.Config{Lease: time.Second})
		time.Sleep(10 * time.Second)
		down.Store(false)
		time.Sleep(10 * time.Second)
		r.mustStop()
		peer.mustStop()
		if n := len(late.Deliveries()) + len(other.Deliveries()); n != 1 || store.Counts().Delivered != 1 {
			t.Errorf("%d deliveries, %+v", n, store.Counts())
		}
	})
}
