package outbox_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/outboxrelay/outbox"
	"github.com/outboxrelay/outbox/outboxtest"
)

// pipeline is a BatchSink that declares pipelining, or not.
type pipeline struct {
	batchFunc
	declared bool
}

func (p pipeline) Pipelines() bool { return p.declared }

// calls records what each call was given, and reports what plan says, by the time it says.
type calls struct {
	mu   sync.Mutex
	all  []string
	plan func(d *outbox.Delivery) error
}

func (c *calls) deliver(_ context.Context, ds []*outbox.Delivery, report func(int, error)) error {
	time.Sleep(10 * time.Millisecond)
	c.mu.Lock()
	var call strings.Builder
	for _, d := range ds {
		call.WriteString(d.Key + string(d.Payload) + " ")
	}
	c.all = append(c.all, strings.TrimSpace(call.String()))
	c.mu.Unlock()
	each(ds, report, func(d *outbox.Delivery) error {
		if c.plan == nil {
			return nil
		}
		return c.plan(d)
	})
	return nil
}

// runPipeline runs a relay over five messages of the key k and one of the key l for a while.
func runPipeline(t *testing.T, p pipeline, cfg outbox.Config, d time.Duration) *outboxtest.Store {
	t.Helper()
	store := outboxtest.NewStore()
	publish(t, store, message("a", "l", "x"))
	publish(t, store, messages(5, "a", "k")...)
	routes := outbox.To(p)
	routes[0].BatchSize = 4
	cfg.PollInterval = time.Hour
	cfg.Retry = outbox.RetryPolicy{Base: time.Hour, Max: 2 * time.Hour, DisableJitter: true}
	r := start(t, store, routes, cfg)
	time.Sleep(d)
	r.mustStop()
	return store
}

// TestPipelineIsOffByDefault: a call has one message of a key, and the next one comes when that is accepted, unless the
// sink says that it pipelines. Then it has as many as the batch takes, in order.
func TestPipelineIsOffByDefault(t *testing.T) {
	for declared, want := range map[bool]string{
		false: "[k0 k1 k2 k3 k4]",
		true:  "[k0 k1 k2 k3 k4]",
	} {
		synctest.Test(t, func(t *testing.T) {
			c := &calls{}
			runPipeline(t, pipeline{c.deliver, declared}, outbox.Config{}, time.Minute)
			most, order := 0, []string{}
			for _, call := range c.all {
				n := 0
				for _, m := range strings.Fields(call) {
					if m[0] == 'k' {
						order = append(order, m)
						n++
					}
				}
				if most = max(most, n); len(strings.Fields(call)) > 4 {
					t.Errorf("a call of more than BatchSize: %s", call)
				}
			}
			if got := fmt.Sprint(order); got != want {
				t.Errorf("declared %v: order %s", declared, got)
			}
			if declared && most < 3 || !declared && most != 1 {
				t.Errorf("declared %v: a call has up to %d of the key: %q", declared, most, c.all)
			}
		})
	}
}

// TestPipelineFailure: what was accepted behind a message that failed is delivered, what was not sent yet waits.
func TestPipelineFailure(t *testing.T) {
	for name, tc := range map[string]struct {
		err         error
		cfg         outbox.Config
		delivered   int // of five of the key and one of another
		ready, dead int
		waiting     int
	}{
		// the first call has 0, 1 and 2 (and x), as many as a claim takes; 1 fails
		"retried":     {errDown, outbox.Config{}, 3, 2, 0, 1},
		"dead":        {outbox.Permanent(errDown), outbox.Config{}, 5, 0, 1, 0},
		"blocked":     {outbox.Permanent(errDown), outbox.Config{Order: outbox.OrderBlock}, 3, 2, 0, 1},
		"parked":      {outbox.Permanent(errDown), outbox.Config{Order: outbox.OrderPark}, 3, 2, 1, 0},
		"unavailable": {outbox.Unavailable(errDown), outbox.Config{}, 3, 3, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := &calls{plan: func(d *outbox.Delivery) error {
					if d.Key == "k" && string(d.Payload) == "1" {
						return tc.err
					}
					return nil
				}}
				store := runPipeline(t, pipeline{c.deliver, true}, tc.cfg, 100*time.Millisecond)
				got := store.Counts()
				if got.Delivered != tc.delivered || got.Ready != tc.ready || got.Dead != tc.dead || got.Waiting != tc.waiting {
					t.Errorf("%+v after the calls %q", got, c.all)
				}
				if letters := store.Dead(); tc.dead > 0 && letters[0].Holds != (tc.cfg.Order == outbox.OrderPark) {
					t.Errorf("dead %+v", letters)
				}
			})
		})
	}
}

// TestPipelineRetryComesLater: the failed message is sent again, alone in front of what had waited behind its call.
func TestPipelineRetryComesLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		failed := false
		c := &calls{plan: func(d *outbox.Delivery) error {
			if d.Key == "k" && string(d.Payload) == "1" && !failed {
				failed = true
				return errDown
			}
			return nil
		}}
		store := runPipeline(t, pipeline{c.deliver, true}, outbox.Config{}, 2*time.Hour)
		order := strings.ReplaceAll(strings.Join(c.all, " "), "lx ", "")
		if order != "k0 k1 k2 k1 k3 k4" {
			t.Errorf("sent %q", c.all)
		}
		if got := store.Counts(); got.Delivered != 6 {
			t.Errorf("%+v", got)
		}
	})
}

// TestPipelinePanicIsolated: when a call with several messages of a key panics, those without a result go one by one, in
// order, and the one at fault fails alone.
func TestPipelinePanicIsolated(t *testing.T) {
	for _, poison := range []string{"0", "1", "2", "4"} {
		t.Run(poison, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var order []string
				store := runPipeline(t, pipeline{func(_ context.Context, ds []*outbox.Delivery, report func(int, error)) error {
					for i, d := range ds {
						if d.Key == "k" && string(d.Payload) == poison {
							panic("poison")
						}
						if d.Key == "k" && !slices.Contains(order, string(d.Payload)) {
							order = append(order, string(d.Payload))
						}
						if i == 0 {
							report(i, nil)
						}
					}
					for i := range ds {
						report(i, nil)
					}
					return nil
				}, true}, outbox.Config{MaxAttempts: 1}, time.Minute)
				if got := store.Counts(); got.Delivered != 5 || got.Dead != 1 {
					t.Errorf("%+v", got)
				}
				if dead := store.Dead(); len(dead) != 1 || string(dead[0].Message.Payload) != poison || dead[0].Attempts != 1 {
					t.Errorf("dead %+v", dead)
				}
				if !slices.IsSorted(order) {
					t.Errorf("order %v", order)
				}
			})
		})
	}
}

// TestPipelinePanicBehindFailure: messages without a result wait behind one of their call that failed.
func TestPipelinePanicBehindFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := runPipeline(t, pipeline{func(_ context.Context, ds []*outbox.Delivery, report func(int, error)) error {
			for i, d := range ds {
				if d.Key == "l" {
					report(i, nil)
				} else if string(d.Payload) == "0" {
					report(i, errDown)
				}
			}
			panic("poison")
		}, true}, outbox.Config{}, time.Minute)
		if got := store.Counts(); got.Ready != 4 || got.Waiting != 1 || got.Claimed != 0 || got.Delivered != 1 {
			t.Errorf("%+v", got)
		}
	})
}

// TestPipelineExpired: a message whose life is over ends the wave. It is not sent, and what is behind it goes on only if
// the wave has not failed.
func TestPipelineExpired(t *testing.T) {
	for name, tc := range map[string]struct {
		fails string
		calls string
		want  outboxtest.Counts
	}{
		"accepted": {"", "k0 k1|k3 k4", outboxtest.Counts{Delivered: 4, Expired: 1}},
		"failed":   {"0", "k0 k1", outboxtest.Counts{Delivered: 1, Waiting: 1, Ready: 3}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := outboxtest.NewStore()
				for i := range 5 {
					m := message("a", "k", strconv.Itoa(i))
					if i == 2 {
						m.TTL = time.Second
					}
					publish(t, store, m)
				}
				time.Sleep(2 * time.Second)
				c := &calls{plan: func(d *outbox.Delivery) error {
					if string(d.Payload) == tc.fails {
						return errDown
					}
					return nil
				}}
				r := start(t, store, outbox.To(pipeline{c.deliver, true}), outbox.Config{
					Retry: outbox.RetryPolicy{Base: time.Hour, DisableJitter: true}})
				time.Sleep(time.Minute)
				r.mustStop()
				if got := strings.Join(c.all, "|"); got != tc.calls {
					t.Errorf("calls %q", c.all)
				}
				if got := store.Counts(); got != tc.want {
					t.Errorf("%+v", got)
				}
			})
		})
	}
}

// TestPipelineRandomFaults is TestBatchRandomFaults with several messages of a key in a call: nothing is lost, nothing
// is held for ever, and without failures a key stays in order.
func TestPipelineRandomFaults(t *testing.T) {
	for i := range 4 {
		seed := uint64(time.Now().UnixNano()) + uint64(i)
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, seed)
				w.pipelined = true
				w.sink = pipeline{func(ctx context.Context, ds []*outbox.Delivery, report func(int, error)) error {
					reported, end := w.oneCall(ds)
					defer end()
					for i, d := range ds {
						if w.pick(20) == 0 {
							if w.pick(10) == 0 {
								panic("in the middle")
							}
							continue
						}
						err := w.Deliver(ctx, d)
						reported(i)
						report(i, err)
					}
					return errors.New("not tried")
				}, true}
				testRandomFaults(t, w)
			})
		})
	}
}

// oneCall demands that the messages of a key are in order, and in one call at a time until they have their results. It
// returns what to do before each report, and at the end.
func (w *world) oneCall(ds []*outbox.Delivery) (reported func(i int), end func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	last, left := map[string]int64{}, map[string]int{}
	for _, d := range ds {
		if d.Key == "" {
			continue
		}
		if d.Seq <= last[d.Key] {
			w.t.Errorf("key %s: %d behind %d in a call", d.Key, d.Seq, last[d.Key])
		}
		last[d.Key] = d.Seq
		left[d.Key]++
	}
	for key := range left {
		if w.calling[key]++; w.calling[key] > 1 && w.evs.count(outbox.EventLeaseLost) == 0 {
			w.t.Errorf("key %s is in two calls", key)
		}
	}
	settle := func(key string, n int) {
		w.mu.Lock()
		defer w.mu.Unlock()
		if left[key] == 0 {
			return
		}
		if left[key] -= n; left[key] == 0 {
			w.calling[key]--
		}
	}
	return func(i int) { settle(ds[i].Key, 1) }, func() {
		for key := range left {
			settle(key, left[key])
		}
	}
}
