package outbox_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/outboxrelay/outbox"
	"github.com/outboxrelay/outbox/outboxtest"
)

// TestBreakerProbesWithOneMessage: an unavailable destination gets one message per probe, costs no attempt, and
// recovers by itself with the order of keys kept.
func TestBreakerProbesWithOneMessage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, sink, evs := outboxtest.NewStore(), &outboxtest.Recorder{}, &events{}
		log := &bytes.Buffer{}
		began := time.Now()
		down := func() bool { return time.Since(began) < 10*time.Minute }
		var during atomic.Int64
		sink.Answer(func(context.Context, *outbox.Delivery) error {
			if down() {
				during.Add(1)
				return outbox.Unavailable(errDown)
			}
			return nil
		})
		for k := range 4 {
			publish(t, store, messages(50, "a", fmt.Sprint("k", k))...)
		}
		claims := &faultyStore{Store: store}
		var asked atomic.Int64
		claims.claim = func(ctx context.Context, q outbox.ClaimQuery) (outbox.Batch, error) {
			asked.Add(1)
			return store.Claim(ctx, q)
		}
		r := start(t, claims, outbox.To(sink), outbox.Config{MaxAttempts: 1, Hooks: evs.hooks(), Logger: slog.New(slog.NewTextHandler(log, nil))})
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		// 50 at once in the beginning, then a probe every 15 to 30 s and some before
		if n := during.Load(); n < 20 || n > 50+50 {
			t.Errorf("%d sent while it was down", n)
		}
		if n := asked.Load(); n > 60 {
			t.Errorf("%d claims while it was down", n)
		}
		time.Sleep(31 * time.Second)
		r.mustStop()
		if c := store.Counts(); c.Delivered != 200 || c.Dead != 0 {
			t.Errorf("%+v", c)
		}
		if strings.Count(log.String(), "is unavailable") != 1 || strings.Count(log.String(), "available again") != 1 {
			t.Errorf("not one line per change:\n%s", log)
		}
		if evs.count(outbox.EventClosed) < 20 {
			t.Errorf("%d closings told", evs.count(outbox.EventClosed))
		}
		next := map[string]int{}
		for _, d := range sink.Deliveries() {
			if d.Attempt != 1 {
				t.Fatalf("attempt %d", d.Attempt)
			}
			if n := next[d.Key]; string(d.Payload) == fmt.Sprint(n) {
				next[d.Key]++
			} else if string(d.Payload) > fmt.Sprint(n) && len(d.Payload) >= len(fmt.Sprint(n)) {
				t.Fatalf("key %s: %s before %d", d.Key, d.Payload, n)
			}
		}
	})
}

// TestBreakerOfOneHandler: in a Mux only the handler that is unavailable rests, and keys keep their order.
func TestBreakerOfOneHandler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, mux := outboxtest.NewStore(), outbox.NewMux()
		var good, bad atomic.Int64
		began := time.Now()
		mux.Handle("x.>", func(context.Context, *outbox.Delivery) error { good.Add(1); return nil })
		mux.Handle("x.bad", func(context.Context, *outbox.Delivery) error {
			bad.Add(1)
			if time.Since(began) < time.Minute {
				return outbox.Unavailable(errDown)
			}
			return nil
		})
		r := start(t, store, outbox.To(mux), outbox.Config{MaxAttempts: 1})
		publish(t, store, messages(30, "x.bad", "")...)
		publish(t, store, message("x.bad", "k", ""), message("x.good", "k", "")) // one key, two handlers
		for range 50 {
			publish(t, store, messages(10, "x.good", "")...)
			time.Sleep(time.Second)
		}
		if n := good.Load(); n != 500 {
			t.Errorf("%d of the good handler delivered beside the bad one", n)
		}
		if n := bad.Load(); n > 50 {
			t.Errorf("the bad handler was called %d times", n)
		}
		time.Sleep(time.Minute)
		r.mustStop()
		if c := store.Counts(); c.Delivered != 532 {
			t.Errorf("%+v", c)
		}
	})
}

// TestDestinationsApart: one destination that hangs does not slow another.
func TestDestinationsApart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, good := outboxtest.NewStore(), &outboxtest.Recorder{}
		hang := outbox.SinkFunc(func(ctx context.Context, _ *outbox.Delivery) error { <-ctx.Done(); return ctx.Err() })
		r := start(t, store, []outbox.Route{
			{Name: "hangs", Topics: []string{"a.>"}, Sink: hang},
			{Name: "good", Topics: []string{"a.b", ">"}, Sink: good},
		}, outbox.Config{})
		publish(t, store, messages(100, "a.b", "k")...)
		publish(t, store, messages(100, "b", "k")...)
		if err := good.Wait(t.Context(), 100); err != nil {
			t.Fatal(err)
		}
		r.mustStop()
		if c := store.Counts(); c.Delivered != 100 {
			t.Errorf("%+v", c)
		}
	})
}

// TestBreakerProbeExpires: a probe that ends without saying anything about the destination is followed by another.
func TestBreakerProbeExpires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, sink := outboxtest.NewStore(), &outboxtest.Recorder{}
		expiring := message("a", "", "expires")
		expiring.TTL = 100 * time.Millisecond
		sink.Plan(outbox.Unavailable(errDown), outbox.Unavailable(errDown))
		publish(t, store, expiring, message("a", "", "2"))
		r := start(t, store, outbox.To(sink), outbox.Config{})
		time.Sleep(5 * time.Second)
		r.mustStop()
		if c := store.Counts(); c.Delivered != 1 || c.Expired != 1 {
			t.Errorf("%+v", c)
		}
	})
}

// TestBreakerSlowProbe: the lane goes on as soon as the probe has returned.
func TestBreakerSlowProbe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, sink := outboxtest.NewStore(), &outboxtest.Recorder{}
		sink.Plan(outbox.Unavailable(errDown))
		sink.Answer(func(context.Context, *outbox.Delivery) error { time.Sleep(time.Second); return nil })
		publish(t, store, messages(1, "a", "")...)
		r := start(t, store, outbox.To(sink), outbox.Config{})
		synctest.Wait()
		publish(t, store, messages(100, "a", "")...)
		time.Sleep(5 * time.Second)
		r.mustStop()
		if c := store.Counts(); c.Delivered != 101 {
			t.Errorf("%+v", c)
		}
	})
}
