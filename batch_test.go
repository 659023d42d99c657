package outbox_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/outboxrelay/outbox"
	"github.com/outboxrelay/outbox/outboxtest"
)

// batchFunc is a BatchSink.
type batchFunc func(ctx context.Context, ds []*outbox.Delivery, report func(int, error)) error

func (f batchFunc) DeliverBatch(ctx context.Context, ds []*outbox.Delivery, report func(int, error)) error {
	return f(ctx, ds, report)
}

func (f batchFunc) Deliver(context.Context, *outbox.Delivery) error {
	return errors.New("the relay called Deliver of a batch sink")
}

// each reports every message with what f returns.
func each(ds []*outbox.Delivery, report func(int, error), f func(d *outbox.Delivery) error) {
	for i, d := range ds {
		report(i, f(d))
	}
}

// TestBatchKeyOrder: random results, at random times, from goroutines of the sink: a key has one message under way, in
// order past those that failed, and the lane never holds more than its slots.
func TestBatchKeyOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const keys, each, slots = 20, 50, 70
		store, w := outboxtest.NewStore(), newBatchWorld(t)
		for i := range each {
			for k := range keys {
				publish(t, store, message("a", fmt.Sprint("k", k), strconv.Itoa(i)))
			}
			publish(t, store, message("a", "", "x"))
		}
		routes := outbox.To(w)
		routes[0].Slots, routes[0].BatchSize = slots, 30
		r := start(t, store, routes, outbox.Config{MaxAttempts: outbox.Unlimited,
			Retry: outbox.RetryPolicy{Base: 10 * time.Millisecond, Max: 50 * time.Millisecond}})
		time.Sleep(5 * time.Minute)
		r.mustStop()
		if c := store.Counts(); c.Delivered != (keys+1)*each || c.Claimed != 0 {
			t.Errorf("%+v", c)
		}
		if w.most.Load() > slots || w.calls.Load() < 10 || w.together.Load() < 2 {
			t.Errorf("%d at once in %d calls, %d calls at once", w.most.Load(), w.calls.Load(), w.together.Load())
		}
	})
}

// TestBatchSlots: a slot is free as soon as its message's result is reported, and not before; by default there are 2,000.
func TestBatchSlots(t *testing.T) {
	for _, slots := range []int{0, 7} {
		synctest.Test(t, func(t *testing.T) {
			store, most := outboxtest.NewStore(), int64(slots)
			if slots == 0 {
				most = 2000
			}
			publish(t, store, messages(3000, "a", "")...)
			var held, highest atomic.Int64
			hooks := outbox.Hooks{Event: func(_ context.Context, e outbox.Event) {
				switch e.Kind {
				case outbox.EventClaimed:
					highest.Store(max(highest.Load(), held.Add(int64(e.Count))))
				case outbox.EventResult:
					held.Add(-1)
				}
			}}
			routes := outbox.To(batchFunc(func(_ context.Context, ds []*outbox.Delivery, report func(int, error)) error {
				if len(ds) > 500 {
					t.Errorf("a batch of %d", len(ds))
				}
				each(ds, report, func(*outbox.Delivery) error { time.Sleep(time.Millisecond); return nil })
				return nil
			}))
			routes[0].Slots = slots
			r := start(t, store, routes, outbox.Config{Hooks: hooks})
			time.Sleep(time.Minute)
			r.mustStop()
			if c := store.Counts(); c.Delivered != 3000 || highest.Load() != most {
				t.Errorf("%+v, %d held with %d slots", c, highest.Load(), most)
			}
		})
	}
}

// batchWorld accepts most messages, in random order and time, and checks what it is given.
type batchWorld struct {
	t *testing.T

	most, calls, together atomic.Int64

	mu       sync.Mutex
	rnd      *rand.Rand
	underway map[string]bool
	next     map[string]int
	n, batch int64
}

func newBatchWorld(t *testing.T) *batchWorld {
	seed := uint64(time.Now().UnixNano()) ^ rand.Uint64()
	t.Logf("seed %d", seed)
	return &batchWorld{t: t, rnd: rand.New(rand.NewPCG(seed, 2)), underway: map[string]bool{}, next: map[string]int{}}
}

func (w *batchWorld) Deliver(context.Context, *outbox.Delivery) error { panic("not a batch") }

func (w *batchWorld) DeliverBatch(_ context.Context, ds []*outbox.Delivery, report func(int, error)) error {
	if w.calls.Add(1); len(ds) == 0 || len(ds) > 30 {
		w.t.Errorf("a batch of %d", len(ds))
	}
	w.count(1, int64(len(ds)))
	var all sync.WaitGroup
	for i, d := range ds {
		delay, err := w.begin(d)
		all.Go(func() {
			time.Sleep(delay)
			w.end(d, err)
			report(i, err)
		})
	}
	all.Wait()
	w.count(-1, 0)
	return nil
}

func (w *batchWorld) count(calls, ds int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.n += ds
	w.most.Store(max(w.most.Load(), w.n))
	w.batch += calls
	w.together.Store(max(w.together.Load(), w.batch))
}

func (w *batchWorld) begin(d *outbox.Delivery) (time.Duration, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if d.Key != "" {
		n, _ := strconv.Atoi(string(d.Payload))
		if w.underway[d.Key] || n != w.next[d.Key] {
			w.t.Errorf("key %s: %d is sent while %d is next, another one under way: %v", d.Key, n, w.next[d.Key], w.underway[d.Key])
		}
		w.underway[d.Key] = true
	}
	var err error
	if w.rnd.IntN(10) == 0 {
		err = errDown
	}
	return time.Duration(w.rnd.IntN(5000)) * time.Microsecond, err
}

func (w *batchWorld) end(d *outbox.Delivery, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.n--
	if d.Key == "" {
		return
	}
	w.underway[d.Key] = false
	if err == nil {
		w.next[d.Key]++
	}
}

// TestBatchFollowsResult: the next message of a key does not wait for the rest of its predecessor's batch, nor do the
// messages that come into the free slots.
func TestBatchFollowsResult(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := outboxtest.NewStore()
		publish(t, store, message("a", "", "slow"))
		publish(t, store, messages(100, "a", "k")...)
		var order []string
		r := start(t, store, outbox.To(batchFunc(func(_ context.Context, ds []*outbox.Delivery, report func(int, error)) error {
			slow := -1
			for i, d := range ds {
				if string(d.Payload) == "slow" {
					slow = i
					continue
				}
				order = append(order, string(d.Payload))
				report(i, nil)
			}
			if slow >= 0 {
				time.Sleep(30 * time.Second)
				report(slow, nil)
			}
			return nil
		})), outbox.Config{})
		time.Sleep(time.Second)
		if c := store.Counts(); c.Delivered != 100 {
			t.Errorf("%+v while one is slow", c)
		}
		time.Sleep(30 * time.Second)
		r.mustStop()
		for i, payload := range order {
			if payload != strconv.Itoa(i) {
				t.Fatalf("order %v", order)
			}
		}
	})
}

// TestBatchFailedHead: behind a message that failed nothing of its key is sent until it is delivered or dead; others
// are not concerned.
func TestBatchFailedHead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := outboxtest.NewStore()
		publish(t, store, messages(3, "a", "bad")...)
		publish(t, store, messages(3, "a", "good")...)
		var sent []string
		var mu sync.Mutex
		r := start(t, store, outbox.To(batchFunc(func(_ context.Context, ds []*outbox.Delivery, report func(int, error)) error {
			each(ds, report, func(d *outbox.Delivery) error {
				mu.Lock()
				defer mu.Unlock()
				sent = append(sent, d.Key+string(d.Payload))
				if d.Key == "bad" && string(d.Payload) == "0" {
					return errDown
				}
				return nil
			})
			return nil
		})), outbox.Config{MaxAttempts: 2, Retry: outbox.RetryPolicy{Base: time.Minute, DisableJitter: true}})
		time.Sleep(30 * time.Second)
		mu.Lock()
		if got := strings.Join(sent, " "); strings.Contains(got, "bad1") || !strings.Contains(got, "good2") {
			t.Errorf("sent %s", got)
		}
		mu.Unlock()
		time.Sleep(time.Minute)
		r.mustStop()
		if c := store.Counts(); c.Delivered != 5 || c.Dead != 1 {
			t.Errorf("%+v, sent %v", c, sent)
		}
	})
}

// TestBatchReports: each message has exactly one result, whatever the sink does.
func TestBatchReports(t *testing.T) {
	for name, test := range map[string]struct {
		deliver batchFunc
		class   string
		text    string // of the dead ones
		dead    int
		rest    int // delivered
	}{
		"nothing reported": {
			func(context.Context, []*outbox.Delivery, func(int, error)) error { return nil },
			outbox.ClassError, outbox.ErrUnreported.Error(), 3, 0,
		},
		"an error for the rest": {
			func(_ context.Context, _ []*outbox.Delivery, report func(int, error)) error {
				report(1, nil)
				return errDown
			}, outbox.ClassError, errDown.Error(), 2, 1,
		},
		"a permanent error for the rest": {
			func(_ context.Context, _ []*outbox.Delivery, report func(int, error)) error {
				report(0, nil)
				return outbox.Permanent(errDown)
			}, outbox.ClassPermanent, errDown.Error(), 2, 1,
		},
		"reported twice, beside the batch and late": {
			func(_ context.Context, ds []*outbox.Delivery, report func(int, error)) error {
				report(-1, nil)
				report(len(ds), errDown)
				for i := range ds {
					report(i, nil)
					report(i, errDown)
				}
				go func() {
					time.Sleep(time.Second)
					report(0, errDown)
				}()
				ds[0] = nil // it is the sink's
				return errDown
			}, "", "", 0, 3,
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := outboxtest.NewStore()
				publish(t, store, messages(3, "a", "")...)
				r := start(t, store, outbox.To(test.deliver), outbox.Config{MaxAttempts: 1})
				time.Sleep(10 * time.Second)
				r.mustStop()
				if c := store.Counts(); c.Dead != test.dead || c.Delivered != test.rest || c.Claimed != 0 {
					t.Errorf("%+v", c)
				}
				for _, d := range store.Dead() {
					if d.Class != test.class || !strings.Contains(d.Text, test.text) {
						t.Errorf("dead of %s: %s", d.Class, d.Text)
					}
				}
			})
		})
	}
}

// TestBatchReportAwaited: a report that is being worked on when DeliverBatch returns still counts, and the message's
// slot and key are free only after it.
func TestBatchReportAwaited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := outboxtest.NewStore()
		publish(t, store, messages(2, "a", "k")...)
		hooks := outbox.Hooks{Event: func(_ context.Context, e outbox.Event) {
			if e.Kind == outbox.EventResult {
				time.Sleep(time.Second)
			}
		}}
		r := start(t, store, outbox.To(batchFunc(func(_ context.Context, ds []*outbox.Delivery, report func(int, error)) error {
			go report(0, nil)
			time.Sleep(time.Millisecond)
			return errDown
		})), outbox.Config{MaxAttempts: 1, Hooks: hooks})
		time.Sleep(500 * time.Millisecond)
		r.mustStop()
		if c := store.Counts(); c.Dead != 0 || c.Delivered != 1 || c.Claimed != 0 && c.Ready != 1 {
			t.Errorf("%+v", c)
		}
	})
}

// TestBatchPanicIsolated: a message that makes the sink panic, or end its goroutine, fails alone.
func TestBatchPanicIsolated(t *testing.T) {
	for name, fail := range map[string]func(){"panic": func() { panic("poison") }, "goexit": runtimeGoexit} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := outboxtest.NewStore()
				publish(t, store, message("a", "k", "poison"))
				publish(t, store, messages(5, "a", "k")...)
				publish(t, store, messages(20, "a", "")...)
				var attempts atomic.Int64
				r := start(t, store, outbox.To(batchFunc(func(_ context.Context, ds []*outbox.Delivery, report func(int, error)) error {
					for i, d := range ds {
						if string(d.Payload) == "poison" {
							attempts.Add(1)
							fail()
						}
						if d.Attempt != 1 {
							t.Errorf("attempt %d of a message beside the poison", d.Attempt)
						}
						if i%2 == 0 {
							report(i, nil)
						}
					}
					for i := range ds {
						report(i, nil)
					}
					return nil
				})), outbox.Config{MaxAttempts: 2})
				time.Sleep(time.Minute)
				r.mustStop()
				if c := store.Counts(); c.Delivered != 25 || c.Dead != 1 || attempts.Load() > 4 {
					t.Errorf("%+v after %d tries", c, attempts.Load())
				}
				if dead := store.Dead(); len(dead) == 1 && (dead[0].Class != outbox.ClassPanic || dead[0].Attempts != 2) {
					t.Errorf("dead of %s after %d attempts", dead[0].Class, dead[0].Attempts)
				}
			})
		})
	}
}

// TestBatchStop: a batch under way finishes, what has not begun is another relay's, in order.
func TestBatchStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := outboxtest.NewStore()
		publish(t, store, messages(5, "a", "k")...)
		publish(t, store, messages(3, "a", "")...)
		r := start(t, store, outbox.To(batchFunc(func(ctx context.Context, ds []*outbox.Delivery, report func(int, error)) error {
			time.Sleep(10 * time.Second)
			each(ds, report, func(*outbox.Delivery) error { return ctx.Err() })
			return nil
		})), outbox.Config{})
		synctest.Wait()
		stopped := time.Now()
		r.mustStop()
		if took := time.Since(stopped); took < 9*time.Second || took > 11*time.Second {
			t.Errorf("stop took %v", took)
		}
		if c := store.Counts(); c.Delivered != 4 { // the head and those without a key
			t.Errorf("%+v", c)
		}
		sink := &outboxtest.Recorder{}
		other := start(t, store.Peer(), outbox.To(sink), outbox.Config{})
		time.Sleep(time.Second)
		other.mustStop()
		if got := payloads(sink.Deliveries()); got != "1 2 3 4 " {
			t.Errorf("then delivered %s", got)
		}
		for _, d := range sink.Deliveries() {
			if d.Attempt != 1 {
				t.Errorf("attempt %d", d.Attempt)
			}
		}
	})
}

// TestBatchDrainTimeout: a batch that is cancelled by the stop costs no attempt.
func TestBatchDrainTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := outboxtest.NewStore()
		publish(t, store, messages(3, "a", "")...)
		r := start(t, store, outbox.To(batchFunc(func(ctx context.Context, ds []*outbox.Delivery, report func(int, error)) error {
			report(1, nil)
			<-ctx.Done()
			if !errors.Is(context.Cause(ctx), outbox.ErrShutdown) {
				t.Errorf("cancelled because %v", context.Cause(ctx))
			}
			return ctx.Err()
		})), outbox.Config{MaxAttempts: 1, DrainTimeout: 5 * time.Second})
		synctest.Wait()
		r.mustStop()
		if c := store.Counts(); c.Delivered != 1 || c.Ready != 2 || c.Dead != 0 {
			t.Errorf("%+v", c)
		}
	})
}

// TestBatchStuck: a batch that ignores its context is reported once, others flow, stop names it.
func TestBatchStuck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, evs, log := outboxtest.NewStore(), &events{}, &bytes.Buffer{}
		never := make(chan struct{})
		defer close(never)
		publish(t, store, messages(3, "a", "")...)
		var first atomic.Bool
		r := start(t, store, outbox.To(batchFunc(func(_ context.Context, ds []*outbox.Delivery, report func(int, error)) error {
			report(0, nil)
			if !first.Swap(true) {
				<-never
			}
			each(ds, report, func(*outbox.Delivery) error { return nil })
			return nil
		})), outbox.Config{HandlerTimeout: time.Second, DrainTimeout: 5 * time.Second, Hooks: evs.hooks(),
			Logger: slog.New(slog.NewTextHandler(log, nil))})
		synctest.Wait()
		publish(t, store, messages(10, "a", "")...)
		time.Sleep(time.Minute)
		if evs.count(outbox.EventStuck) != 1 || store.Counts().Delivered != 11 {
			t.Errorf("reported %d times, %+v", evs.count(outbox.EventStuck), store.Counts())
		}
		if err := r.stop(); !errors.Is(err, outbox.ErrDrainTimeout) || !strings.Contains(err.Error(), "2 still") {
			t.Errorf("Run returned %v", err)
		}
		if c := store.Counts(); c.Claimed != 2 || !strings.Contains(log.String(), "messages=2") {
			t.Errorf("%+v\n%s", c, log)
		}
	})
}

// TestBatchLeaseLost: a lost lease cancels the batch, settles what was reported and nothing else, and sends no
// follower.
func TestBatchLeaseLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &faultyStore{Store: outboxtest.NewStore()}
		var down atomic.Bool
		store.beat = func(ctx context.Context, info outbox.RelayInfo, known []outbox.Token) (outbox.Orders, error) {
			if down.Load() {
				return outbox.Orders{}, errDown
			}
			return store.Store.Beat(ctx, info, known)
		}
		publish(t, store.Store, messages(3, "a", "k")...)
		publish(t, store.Store, messages(3, "a", "")...)
		var first atomic.Int64
		r := start(t, store, outbox.To(batchFunc(func(ctx context.Context, ds []*outbox.Delivery, report func(int, error)) error {
			if first.Add(1) > 1 {
				each(ds, report, func(d *outbox.Delivery) error {
					if d.Attempt != 1 {
						t.Errorf("attempt %d", d.Attempt)
					}
					return nil
				})
				return nil
			}
			<-ctx.Done()
			if !errors.Is(context.Cause(ctx), outbox.ErrLeaseLost) {
				t.Errorf("cancelled because %v", context.Cause(ctx))
			}
			report(0, nil) // the head of k: sent, and too late to send what is behind it
			return ctx.Err()
		})), outbox.Config{MaxAttempts: 1, HandlerTimeout: time.Hour})
		synctest.Wait()
		down.Store(true)
		time.Sleep(40 * time.Second)
		if first.Load() != 1 {
			t.Errorf("%d calls without a lease", first.Load())
		}
		down.Store(false)
		time.Sleep(time.Minute)
		r.mustStop()
		if c := store.Counts(); c.Delivered != 6 || c.Dead != 0 {
			t.Errorf("%+v", c)
		}
	})
}

// TestBatchExpired: an expired message is taken out of the batch, the next of its key goes in.
func TestBatchExpired(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := outboxtest.NewStore()
		expiring := message("a", "k", "expires")
		expiring.TTL = 5 * time.Second
		publish(t, store, message("a", "k", "slow"), expiring, message("a", "k", "last"))
		var sent []string
		r := start(t, store, outbox.To(batchFunc(func(_ context.Context, ds []*outbox.Delivery, report func(int, error)) error {
			each(ds, report, func(d *outbox.Delivery) error {
				sent = append(sent, string(d.Payload))
				if string(d.Payload) == "slow" {
					time.Sleep(10 * time.Second)
				}
				return nil
			})
			return nil
		})), outbox.Config{})
		time.Sleep(time.Minute)
		r.mustStop()
		if c := store.Counts(); c.Delivered != 2 || c.Expired != 1 || strings.Join(sent, " ") != "slow last" {
			t.Errorf("%+v, sent %v", c, sent)
		}
	})
}

// TestBatchDeadline: the longest of the messages' limits, and what timed out alone is an attempt.
func TestBatchDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := outboxtest.NewStore()
		publish(t, store, message("quick", "", "1"), message("slow", "", "2"))
		r := start(t, store, outbox.To(batchFunc(func(ctx context.Context, ds []*outbox.Delivery, report func(int, error)) error {
			began := time.Now()
			<-ctx.Done()
			if took := time.Since(began); took != 20*time.Second {
				t.Errorf("the limit was %v", took)
			}
			report(0, nil)
			return ctx.Err()
		})), outbox.Config{MaxAttempts: 1, HandlerTimeout: time.Second, Rules: []outbox.Rule{{Topics: []string{"slow"}, Timeout: 20 * time.Second}}})
		time.Sleep(time.Minute)
		r.mustStop()
		dead := store.Dead()
		if len(dead) != 1 || dead[0].Class != outbox.ClassTimeout || store.Counts().Delivered != 1 {
			t.Errorf("%+v, dead %+v", store.Counts(), dead)
		}
	})
}

// TestBatchRandomFaults is TestRandomFaults with batches.
func TestBatchRandomFaults(t *testing.T) {
	for i := range 4 {
		seed := uint64(time.Now().UnixNano()) + uint64(i)
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, seed)
				w.sink = batchFunc(func(ctx context.Context, ds []*outbox.Delivery, report func(int, error)) error {
					if w.pick(200) == 0 {
						return outbox.Unavailable(errDown)
					}
					var all sync.WaitGroup
					for i, d := range ds {
						if w.pick(20) > 0 {
							all.Go(func() { report(i, w.Deliver(ctx, d)) })
						}
					}
					all.Wait()
					return errDown // for those not tried
				})
				testRandomFaults(t, w)
			})
		})
	}
}
