package outbox_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/outboxrelay/outbox"
	"github.com/outboxrelay/outbox/outboxtest"
)

// TestStopDrains: running handlers finish, what has not begun is another relay's at once.
func TestStopDrains(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := outboxtest.NewStore()
		publish(t, store, messages(5, "a", "k")...)
		begun := make(chan struct{}, 10)
		routes := sinkOf(func(ctx context.Context, d *outbox.Delivery) error {
			begun <- struct{}{}
			time.Sleep(10 * time.Second)
			return ctx.Err()
		})
		r := start(t, store, routes, outbox.Config{})
		<-begun
		publish(t, store, messages(3, "b", "")...) // never begun: no slot was asked for them yet
		stopped := time.Now()
		r.cancel()
		sink := &outboxtest.Recorder{}
		other := start(t, store.Peer(), outbox.To(sink), outbox.Config{})
		if err := <-r.result; err != nil {
			t.Fatal(err)
		}
		if took := time.Since(stopped); took < 9*time.Second || took > 11*time.Second {
			t.Errorf("stop took %v", took)
		}
		time.Sleep(time.Second)
		other.mustStop()
		if c := store.Counts(); c.Delivered != 8 || c.Claimed != 0 {
			t.Errorf("%+v", c)
		}
		for _, d := range sink.Deliveries() {
			if d.Attempt != 1 {
				t.Errorf("attempt %d of a message that was given back", d.Attempt)
			}
		}
	})
}

// TestStopGivesBackAtOnce: another relay has the messages that were not begun while the first one drains.
func TestStopGivesBackAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := outboxtest.NewStore()
		ms := append([]outbox.Message{message("a", "k", "slow")}, messages(4, "a", "k")...)
		publish(t, store, ms...)
		release := make(chan struct{})
		r := start(t, store, sinkOf(func(context.Context, *outbox.Delivery) error { <-release; return nil }), outbox.Config{})
		synctest.Wait()
		r.cancel()
		time.Sleep(time.Second)
		sink := &outboxtest.Recorder{}
		other := start(t, store.Peer(), outbox.To(sink), outbox.Config{})
		time.Sleep(time.Second)
		if n := len(sink.Deliveries()); n != 0 {
			t.Errorf("%d delivered past the head that is still running", n)
		}
		close(release)
		if err := <-r.result; err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		other.mustStop()
		if got := payloads(sink.Deliveries()); got != "0 1 2 3 " {
			t.Errorf("delivered %s", got)
		}
	})
}

// TestDrainTimeout: at the limit handlers are cancelled with ErrShutdown, which costs no attempt.
func TestDrainTimeout(t *testing.T) {
	for name, abort := range map[string]bool{"at the limit": false, "aborted": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := outboxtest.NewStore()
				publish(t, store, message("a", "", "1"))
				r := start(t, store, sinkOf(func(ctx context.Context, d *outbox.Delivery) error {
					<-ctx.Done()
					return context.Cause(ctx)
				}), outbox.Config{MaxAttempts: 1, DrainTimeout: 10 * time.Second})
				synctest.Wait()
				began, want := time.Now(), 10*time.Second
				if abort {
					r.Abort()
					want = 0
				}
				r.mustStop()
				if took := time.Since(began); took < want || took > want+time.Second {
					t.Errorf("stop took %v", took)
				}
				if c := store.Counts(); c.Dead != 0 || c.Ready != 1 || c.Claimed != 1 { // given back: listed, nobody's
					t.Errorf("%+v", c)
				}
			})
		})
	}
}

// TestStuckHandler: a handler that never returns is reported, others flow, stop is obeyed, its message stays held.
func TestStuckHandler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, evs, log := &faultyStore{Store: outboxtest.NewStore()}, &events{}, &bytes.Buffer{}
		var told atomic.Int64 // by the last heartbeat
		store.beat = func(ctx context.Context, info outbox.RelayInfo, known []outbox.Token) (outbox.Orders, error) {
			if info.Stopping {
				t.Error("the last heartbeat gives the stuck message back")
			}
			told.Store(info.Counters["stuck"])
			return store.Store.Beat(ctx, info, known)
		}
		never := make(chan struct{})
		defer close(never)
		publish(t, store.Store, message("a", "k", "stuck"), message("a", "k", "behind"))
		publish(t, store.Store, messages(10, "a", "")...)
		r := start(t, store, sinkOf(func(ctx context.Context, d *outbox.Delivery) error {
			if string(d.Payload) == "stuck" {
				stuckInHandler(never)
			}
			return nil
		}), outbox.Config{HandlerTimeout: time.Second, DrainTimeout: 5 * time.Second, Hooks: evs.hooks(),
			Logger: slog.New(slog.NewTextHandler(log, nil))})
		time.Sleep(time.Minute)
		if evs.count(outbox.EventStuck) != 1 || store.Counts().Delivered != 10 || told.Load() != 1 {
			t.Errorf("reported %d times, %+v; heartbeats tell of %d", evs.count(outbox.EventStuck), store.Counts(), told.Load())
		}
		began := time.Now()
		if err := r.stop(); !errors.Is(err, outbox.ErrDrainTimeout) {
			t.Errorf("Run returned %v", err)
		}
		if took := time.Since(began); took > 8*time.Second {
			t.Errorf("stop took %v", took)
		}
		if c := store.Counts(); c.Claimed != 2 {
			t.Errorf("%+v", c)
		}
		if !strings.Contains(log.String(), "stuckInHandler") || !strings.Contains(log.String(), "abandoned") {
			t.Errorf("log without stack or name:\n%s", log)
		}
	})
}

func stuckInHandler(never chan struct{}) { <-never }

// TestStopDuringClaim: a claim whose answer does not come does not hold a stop up.
func TestStopDuringClaim(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &faultyStore{Store: outboxtest.NewStore()}
		store.claim = func(ctx context.Context, q outbox.ClaimQuery) (outbox.Batch, error) {
			<-ctx.Done()
			return outbox.Batch{}, ctx.Err()
		}
		r := start(t, store, outbox.To(&outboxtest.Recorder{}), outbox.Config{})
		synctest.Wait()
		began := time.Now()
		r.mustStop()
		if took := time.Since(began); took > 2*time.Second {
			t.Errorf("stop took %v", took)
		}
	})
}
