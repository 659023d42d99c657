package outbox_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/outboxrelay/outbox"
	"github.com/outboxrelay/outbox/outboxtest"
)

func TestDelivers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, sink := outboxtest.NewStore(), &outboxtest.Recorder{}
		m := message("orders.created", "k", "\x00\xffbytes")
		m.Headers = map[string]string{"a": "b"}
		receipt := publish(t, store, m)[0]
		r := start(t, store, outbox.To(sink), outbox.Config{})
		<-r.Ready()
		synctest.Wait()
		r.mustStop()
		ds := sink.Deliveries()
		if len(ds) != 1 || ds[0].ID != receipt.ID || string(ds[0].Payload) != "\x00\xffbytes" || ds[0].Attempt != 1 || ds[0].Headers["a"] != "b" {
			t.Fatalf("delivered %+v", ds)
		}
		if c := store.Counts(); c != (outboxtest.Counts{Delivered: 1}) {
			t.Fatalf("store has %+v", c)
		}
	})
}

func TestReadyAndWakeUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, sink := outboxtest.NewStore(), &outboxtest.Recorder{}
		r := start(t, store, outbox.To(sink), outbox.Config{})
		<-r.Ready()
		time.Sleep(time.Minute) // long idle: polling has slowed down
		before := time.Now()
		publish(t, store, message("a", "", "1"))
		if err := sink.Wait(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(before); took > 5*time.Millisecond {
			t.Errorf("a wake-up took %v", took)
		}
		r.mustStop()
	})
}

// TestWakeUpBetweenClaimAndRest publishes while an empty claim's answer is on its way.
func TestWakeUpBetweenClaimAndRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, sink := outboxtest.NewStore(), &outboxtest.Recorder{}
		faulty := &faultyStore{Store: store}
		var published time.Time
		faulty.claim = func(ctx context.Context, q outbox.ClaimQuery) (outbox.Batch, error) {
			b, err := store.Claim(ctx, q)
			if time.Now().After(published.Add(time.Hour)) && len(b.Claims) == 0 && store.Counts().Delivered == 0 {
				published = time.Now()
				if _, err := store.Publish(ctx, message("a", "", "1")); err != nil {
					t.Error(err)
				}
				time.Sleep(100 * time.Microsecond)
			}
			return b, err
		}
		published = time.Now().Add(-time.Hour + 30*time.Second)
		r := start(t, faulty, outbox.To(sink), outbox.Config{PollInterval: 20 * time.Second})
		if err := sink.Wait(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(published); took > 10*time.Millisecond {
			t.Errorf("found after %v", took)
		}
		r.mustStop()
	})
}

// TestSlotsOfOne: the second message does not start before the first ends.
func TestSlotsOfOne(t *testing.T) { testSlots(t, 1, 20) }

func TestSlotsBound(t *testing.T) { testSlots(t, 7, 200) }

func testSlots(t *testing.T, slots, n int) {
	synctest.Test(t, func(t *testing.T) {
		store := outboxtest.NewStore()
		publish(t, store, messages(n, "a", "")...)
		var running, most, held atomic.Int64
		routes := sinkOf(func(ctx context.Context, d *outbox.Delivery) error {
			now := running.Add(1)
			defer running.Add(-1)
			for m := most.Load(); now > m && !most.CompareAndSwap(m, now); m = most.Load() {
			}
			time.Sleep(5 * time.Millisecond)
			return nil
		})
		routes[0].Slots = slots
		hooks := outbox.Hooks{Event: func(_ context.Context, e outbox.Event) {
			switch e.Kind {
			case outbox.EventClaimed:
				if h := held.Add(int64(e.Count)); h > int64(slots) {
					t.Errorf("%d messages held with %d slots", h, slots)
				}
			case outbox.EventResult:
				held.Add(-1)
			}
		}}
		r := start(t, store, routes, outbox.Config{Hooks: hooks})
		time.Sleep(time.Duration(n/slots+1) * 20 * time.Millisecond)
		r.mustStop()
		if store.Counts().Delivered != n || most.Load() != int64(slots) {
			t.Fatalf("%d delivered, %d at once", store.Counts().Delivered, most.Load())
		}
	})
}

// TestFewClaims: 50 slots, handlers of 5 ms: at most 80 claims per 1,000 messages, and nearly full use.
func TestFewClaims(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := outboxtest.NewStore()
		const n = 10_000
		publish(t, store, messages(n, "a", "")...)
		var claims, delivered atomic.Int64
		var last atomic.Pointer[time.Time]
		began := time.Now()
		routes := sinkOf(func(ctx context.Context, d *outbox.Delivery) error {
			time.Sleep(5 * time.Millisecond)
			now := time.Now()
			last.Store(&now)
			delivered.Add(1)
			return nil
		})
		faulty := &faultyStore{Store: store}
		faulty.claim = func(ctx context.Context, q outbox.ClaimQuery) (outbox.Batch, error) {
			time.Sleep(300 * time.Microsecond)
			if delivered.Load() < n {
				claims.Add(1)
			}
			return store.Claim(ctx, q)
		}
		faulty.settle = func(ctx context.Context, os []outbox.Outcome) ([]outbox.Settled, error) {
			time.Sleep(time.Millisecond)
			return store.Settle(ctx, os)
		}
		r := start(t, faulty, routes, outbox.Config{})
		time.Sleep(5 * time.Second)
		r.mustStop()
		took := last.Load().Sub(began)
		t.Logf("%d claims, %v", claims.Load(), took)
		if delivered.Load() != n || claims.Load() > 80*n/1000 {
			t.Errorf("%d delivered with %d claims", delivered.Load(), claims.Load())
		}
		if ideal := n / 50 * 5 * time.Millisecond; took > ideal*5/4 {
			t.Errorf("took %v, at full use %v", took, ideal)
		}
	})
}

// TestKeyOneAtATime: within keys in publish order and never two at once, across claims and slow settles.
func TestKeyOneAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := outboxtest.NewStore()
		const keys, each = 5, 40
		for i := range each {
			for k := range keys {
				publish(t, store, message("a", fmt.Sprint("k", k), fmt.Sprint(i)))
			}
		}
		var mu sync.Mutex
		next, running := map[string]int{}, map[string]bool{}
		r := start(t, store, sinkOf(func(ctx context.Context, d *outbox.Delivery) error {
			mu.Lock()
			if running[d.Key] || string(d.Payload) != fmt.Sprint(next[d.Key]) {
				t.Errorf("key %s: %s delivered, expected %d; running %v", d.Key, d.Payload, next[d.Key], running[d.Key])
			}
			running[d.Key] = true
			mu.Unlock()
			time.Sleep(time.Millisecond)
			mu.Lock()
			defer mu.Unlock()
			running[d.Key] = false
			if d.Attempt == 1 && next[d.Key]%7 == 3 {
				return errors.New("once")
			}
			next[d.Key]++
			return nil
		}), outbox.Config{})
		time.Sleep(time.Minute)
		r.mustStop()
		if c := store.Counts(); c.Delivered != keys*each {
			t.Fatalf("%+v", c)
		}
	})
}

// TestKeyWithoutOrder: with OrderNone the messages of a key are delivered side by side.
func TestKeyWithoutOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := outboxtest.NewStore()
		publish(t, store, messages(10, "a", "k")...)
		var running atomic.Int64
		release := make(chan struct{})
		r := start(t, store, sinkOf(func(ctx context.Context, d *outbox.Delivery) error {
			running.Add(1)
			<-release
			return nil
		}), outbox.Config{Rules: []outbox.Rule{{Topics: []string{"a"}, Order: outbox.OrderNone}}})
		synctest.Wait()
		if running.Load() != 10 {
			t.Errorf("%d at once", running.Load())
		}
		close(release)
		r.mustStop()
	})
}

// TestDeadHeadGoesOn: under OrderSkip a key goes on behind its dead message.
func TestDeadHeadGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, sink := outboxtest.NewStore(), &outboxtest.Recorder{}
		publish(t, store, messages(4, "a", "k")...)
		sink.Plan(nil, outbox.Permanent(errors.New("bad")))
		r := start(t, store, outbox.To(sink), outbox.Config{})
		synctest.Wait()
		r.mustStop()
		if got := payloads(sink.Deliveries()); got != "0 1 2 3 " {
			t.Errorf("delivered %s", got)
		}
		if c := store.Counts(); c.Delivered != 3 || c.Dead != 1 {
			t.Errorf("%+v", c)
		}
	})
}

// TestDeathIsStoredFirst: what comes behind a dead message waits until its death is stored. If the relay dies before
// that, the message comes again and may be accepted: it must not have been passed.
func TestDeathIsStoredFirst(t *testing.T) {
	for name, route := range map[string]func(*outboxtest.Recorder) outbox.Sink{
		"one by one": func(r *outboxtest.Recorder) outbox.Sink { return r },
		"batches":    func(r *outboxtest.Recorder) outbox.Sink { return recorderBatch{r} },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store, sink := &faultyStore{Store: outboxtest.NewStore()}, &outboxtest.Recorder{}
				stored := make(chan struct{})
				store.settle = func(ctx context.Context, os []outbox.Outcome) ([]outbox.Settled, error) {
					<-stored
					return store.Store.Settle(ctx, os)
				}
				publish(t, store.Store, messages(3, "a", "k")...)
				sink.Plan(outbox.Permanent(errors.New("bad")))
				r := start(t, store, outbox.To(route(sink)), outbox.Config{})
				time.Sleep(5 * time.Second)
				if got := payloads(sink.Deliveries()); got != "0 " {
					t.Errorf("delivered %s before the death of 0 was stored", got)
				}
				close(stored)
				time.Sleep(time.Second)
				r.mustStop()
				if got := payloads(sink.Deliveries()); got != "0 1 2 " {
					t.Errorf("delivered %s", got)
				}
			})
		})
	}
}

// recorderBatch is a Recorder that takes batches.
type recorderBatch struct{ *outboxtest.Recorder }

func (r recorderBatch) DeliverBatch(ctx context.Context, ds []*outbox.Delivery, report func(i int, err error)) error {
	for i, d := range ds {
		report(i, r.Deliver(ctx, d))
	}
	return nil
}

// TestResults: what each error of a handler does.
func TestResults(t *testing.T) {
	boom := errors.New("boom")
	for name, tc := range map[string]struct {
		results  []error
		max      int
		attempts int
		class    string // of the dead letter; empty: delivered
		dropped  bool
	}{
		"success":                   {results: []error{nil}, attempts: 1},
		"fails once":                {results: []error{boom, nil}, attempts: 2},
		"always fails":              {results: []error{boom, boom}, max: 2, attempts: 2, class: "error"},
		"permanent":                 {results: []error{fmt.Errorf("w: %w", outbox.Permanent(boom))}, attempts: 1, class: "permanent"},
		"retry after":               {results: []error{outbox.RetryAfter(3*time.Second, boom), nil}, attempts: 2},
		"retry after, last":         {results: []error{outbox.RetryAfter(0, boom)}, max: 1, attempts: 1, class: "error"},
		"drop":                      {results: []error{outbox.Drop("not wanted")}, attempts: 1, dropped: true},
		"unavailable is no attempt": {results: []error{outbox.Unavailable(boom), nil}, max: 1, attempts: 2},
		"unlimited":                 {results: []error{boom, boom, boom, boom, nil}, max: outbox.Unlimited, attempts: 5},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store, sink := outboxtest.NewStore(), &outboxtest.Recorder{}
				sink.Plan(tc.results...)
				m := message("a", "", "1")
				m.MaxAttempts = tc.max
				publish(t, store, m)
				r := start(t, store, outbox.To(sink), outbox.Config{MaxAttempts: 3, Retry: outbox.RetryPolicy{Base: time.Second}})
				time.Sleep(time.Minute)
				r.mustStop()
				if n := len(sink.Deliveries()); n != tc.attempts {
					t.Errorf("%d runs, want %d", n, tc.attempts)
				}
				c, dead := store.Counts(), store.Dead()
				switch {
				case tc.class != "":
					if len(dead) != 1 || dead[0].Class != tc.class || dead[0].Attempts != tc.attempts || !strings.HasSuffix(dead[0].Text, "boom") {
						t.Errorf("dead %+v", dead)
					}
				case tc.dropped && c.Dropped != 1 || !tc.dropped && c.Delivered != 1:
					t.Errorf("%+v", c)
				}
			})
		})
	}
}

func TestRetryAfterIsExact(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := outboxtest.NewStore()
		publish(t, store, message("a", "", "slow"), message("a", "", "1"))
		var at []time.Time
		r := start(t, store, sinkOf(func(ctx context.Context, d *outbox.Delivery) error {
			if string(d.Payload) == "slow" { // a slow neighbour in the same claim holds nothing up
				time.Sleep(30 * time.Second)
				return nil
			}
			at = append(at, time.Now())
			if len(at) == 1 {
				return outbox.RetryAfter(20*time.Second, errors.New("boom"))
			}
			return nil
		}), outbox.Config{PollInterval: time.Minute})
		time.Sleep(time.Minute)
		r.mustStop()
		if len(at) != 2 || at[1].Sub(at[0]) < 20*time.Second || at[1].Sub(at[0]) > 20020*time.Millisecond {
			t.Fatalf("runs at %v", at)
		}
	})
}

func TestPanicAndGoexit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := outboxtest.NewStore()
		publish(t, store, message("a", "k", "panic"), message("a", "k", "goexit"), message("a", "k", "good"))
		calls := 0
		r := start(t, store, sinkOf(func(ctx context.Context, d *outbox.Delivery) error {
			calls++
			switch string(d.Payload) {
			case "panic":
				panic("ouch")
			case "goexit":
				runtimeGoexit()
			}
			return nil
		}), outbox.Config{MaxAttempts: 2})
		time.Sleep(time.Minute)
		r.mustStop()
		dead := store.Dead()
		if len(dead) != 2 || dead[0].Class != "panic" || dead[1].Class != "panic" || store.Counts().Delivered != 1 || calls != 5 {
			t.Fatalf("%d calls, %+v, dead %+v", calls, store.Counts(), dead)
		}
	})
}

func TestHandlerTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := outboxtest.NewStore()
		publish(t, store, message("a", "", "1"), message("b.c", "", "2"))
		r := start(t, store, sinkOf(func(ctx context.Context, d *outbox.Delivery) error {
			began := time.Now()
			<-ctx.Done()
			if want := map[string]time.Duration{"a": 3 * time.Second, "b.c": time.Second}[d.Topic]; time.Since(began) != want {
				t.Errorf("topic %s had %v", d.Topic, time.Since(began))
			}
			if cause := context.Cause(ctx); cause != outbox.ErrHandlerTimeout {
				t.Errorf("cause %v", cause)
			}
			return ctx.Err()
		}), outbox.Config{HandlerTimeout: 3 * time.Second, MaxAttempts: 1,
			Rules: []outbox.Rule{{Topics: []string{"b.*"}, Timeout: time.Second}}})
		time.Sleep(time.Minute)
		r.mustStop()
		if dead := store.Dead(); len(dead) != 2 || dead[0].Class != "timeout" {
			t.Fatalf("dead %+v", dead)
		}
	})
}

func TestExpired(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := outboxtest.NewStore()
		blocked := message("a", "k", "head")
		drop, dead := message("a", "k", "drop"), message("b", "k", "dead")
		drop.TTL, dead.TTL = time.Second, time.Second
		publish(t, store, blocked, drop, dead, message("a", "k", "last"))
		sink := &outboxtest.Recorder{}
		sink.Answer(func(ctx context.Context, d *outbox.Delivery) error {
			time.Sleep(2 * time.Second)
			return nil
		})
		r := start(t, store, outbox.To(sink), outbox.Config{
			Rules: []outbox.Rule{{Topics: []string{"b"}, OnExpired: outbox.ExpiredDead}}})
		time.Sleep(time.Minute)
		r.mustStop()
		if got := payloads(sink.Deliveries()); got != "head last " {
			t.Errorf("delivered %s", got)
		}
		if d := store.Dead(); len(d) != 1 || d[0].Class != "expired" || d[0].Attempts != 0 || store.Counts().Expired != 1 {
			t.Errorf("%+v, dead %+v", store.Counts(), d)
		}
	})
}

func TestRunTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, outboxtest.NewStore(), outbox.To(&outboxtest.Recorder{}), outbox.Config{})
		<-r.Ready()
		if err := r.Run(t.Context()); err == nil {
			t.Error("a second Run beside the first succeeded")
		}
		r.mustStop()
		if err := r.Run(t.Context()); err == nil {
			t.Error("a second Run after the first succeeded")
		}
	})
}
