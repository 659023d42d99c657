package outbox_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
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

// place is a destination that can be asked.
type place struct {
	deliver func(d *outbox.Delivery) error
	ping    func(ctx context.Context) error
	fit     func(ctx context.Context) error

	sent, pings, fits atomic.Int64
}

func (p *place) Deliver(_ context.Context, d *outbox.Delivery) error {
	p.sent.Add(1)
	return p.deliver(d)
}

// pinger is a place that can be pinged, preflighter one that tells whether it is fit.
type pinger struct{ *place }

func (p pinger) Ping(ctx context.Context) error {
	p.pings.Add(1)
	return p.ping(ctx)
}

type preflighter struct{ *place }

func (p preflighter) Preflight(ctx context.Context) error {
	p.fits.Add(1)
	return p.fit(ctx)
}

func textLog(b *bytes.Buffer) *slog.Logger { return slog.New(slog.NewTextHandler(b, nil)) }

// TestPingIsProbe: while the destination is away it is pinged, at growing distances, and no message is sent.
func TestPingIsProbe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, log, began := outboxtest.NewStore(), &bytes.Buffer{}, time.Now()
		away := func() error {
			if time.Since(began) < 10*time.Minute {
				return errDown
			}
			return nil
		}
		p := &place{
			deliver: func(*outbox.Delivery) error { return outbox.Unavailable(away()) },
			ping:    func(context.Context) error { return away() },
		}
		publish(t, store, messages(100, "a", "")...)
		r := start(t, store, outbox.To(pinger{p}), outbox.Config{MaxAttempts: 1, Logger: textLog(log)})
		time.Sleep(10*time.Minute - time.Second)
		if p.sent.Load() > 50 || p.pings.Load() < 20 || p.pings.Load() > 60 {
			t.Errorf("%d sent, %d pings", p.sent.Load(), p.pings.Load())
		}
		time.Sleep(35 * time.Second)
		r.mustStop()
		if c := store.Counts(); c.Delivered != 100 || c.Dead != 0 {
			t.Errorf("%+v", c)
		}
		if strings.Count(log.String(), "is unavailable") != 1 || strings.Count(log.String(), "available again") != 1 {
			t.Errorf("not one line per change:\n%s", log)
		}
	})
}

// TestPingOnTrial: a destination that answers pings and takes no message is tried at growing distances all the same,
// logged once, and costs no attempt while several messages fail.
func TestPingOnTrial(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, log, began := outboxtest.NewStore(), &bytes.Buffer{}, time.Now()
		p := &place{
			deliver: func(*outbox.Delivery) error {
				time.Sleep(time.Millisecond)
				if time.Since(began) < 10*time.Minute {
					return outbox.Unavailable(errDown)
				}
				return nil
			},
			ping: func(context.Context) error { return nil },
		}
		publish(t, store, messages(100, "a", "")...)
		r := start(t, store, outbox.To(pinger{p}), outbox.Config{MaxAttempts: 1, Logger: textLog(log)})
		time.Sleep(11 * time.Minute)
		r.mustStop()
		if p.pings.Load() < 20 || p.pings.Load() > 60 {
			t.Errorf("%d pings", p.pings.Load())
		}
		if c := store.Counts(); c.Delivered != 100 || c.Dead != 0 {
			t.Errorf("%+v", c)
		}
		if strings.Count(log.String(), "is unavailable") != 1 || strings.Count(log.String(), "available again") != 1 {
			t.Errorf("not one line per change:\n%s", log)
		}
	})
}

// TestPreflightFails: nothing is claimed before the destination is fit, its text is logged once and again when it
// changes, the relay is ready, and no attempt is spent.
func TestPreflightFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, log, began := outboxtest.NewStore(), &bytes.Buffer{}, time.Now()
		p := &place{
			deliver: func(*outbox.Delivery) error { return nil },
			fit: func(context.Context) error {
				switch passed := time.Since(began); {
				case passed < time.Minute:
					return errDown
				case passed < 2*time.Minute:
					return errors.New("the stream is missing")
				}
				return nil
			},
		}
		publish(t, store, messages(100, "a", "")...)
		r := start(t, store, outbox.To(preflighter{p}), outbox.Config{MaxAttempts: 1, Logger: textLog(log)})
		<-r.Ready()
		time.Sleep(2*time.Minute - time.Second)
		if c := store.Counts(); p.sent.Load() != 0 || c.Claimed != 0 || p.fits.Load() > 20 {
			t.Errorf("%d sent, %d preflights, %+v", p.sent.Load(), p.fits.Load(), c)
		}
		time.Sleep(35 * time.Second)
		r.mustStop()
		if c := store.Counts(); c.Delivered != 100 || c.Dead != 0 {
			t.Errorf("%+v", c)
		}
		for text, n := range map[string]int{errDown.Error(): 1, "the stream is missing": 1, "available again": 1} {
			if strings.Count(log.String(), text) != n {
				t.Errorf("%q is not logged %d times:\n%s", text, n, log)
			}
		}
	})
}

// TestPreflightRepeated: a destination that works is looked at every few minutes, and rests when it is unfit.
func TestPreflightRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, began := outboxtest.NewStore(), time.Now()
		p := &place{
			deliver: func(*outbox.Delivery) error { return nil },
			fit: func(context.Context) error {
				if passed := time.Since(began); passed > 9*time.Minute && passed < 14*time.Minute {
					return errDown
				}
				return nil
			},
		}
		r := start(t, store, outbox.To(preflighter{p}), outbox.Config{})
		time.Sleep(9 * time.Minute)
		if n := p.fits.Load(); n != 2 {
			t.Errorf("%d preflights in 9 minutes", n)
		}
		time.Sleep(2 * time.Minute)
		publish(t, store, message("a", "", "1"))
		time.Sleep(2 * time.Minute)
		if c := store.Counts(); c.Delivered != 0 {
			t.Errorf("%+v while unfit", c)
		}
		time.Sleep(2 * time.Minute)
		r.mustStop()
		if c := store.Counts(); c.Delivered != 1 {
			t.Errorf("%+v", c)
		}
	})
}

// TestPreflightUntilIdle: a relay that runs until idle does not wait for an unfit destination.
func TestPreflightUntilIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := outboxtest.NewStore()
		publish(t, store, message("a", "", "1"))
		p := &place{fit: func(context.Context) error { return errDown }}
		relay, err := outbox.NewRelay(store, outbox.To(preflighter{p}), &outbox.Config{Logger: quiet()})
		if err != nil {
			t.Fatal(err)
		}
		if n, err := relay.RunUntilIdle(t.Context()); err != nil || n != (outbox.Counts{}) {
			t.Errorf("%+v, %v", n, err)
		}
	})
}

// TestPreflightMisbehaves: a check that panics, hangs or ends its goroutine is a failed one.
func TestPreflightMisbehaves(t *testing.T) {
	for name, fit := range map[string]func(ctx context.Context, never chan struct{}) error{
		"panics":                func(context.Context, chan struct{}) error { panic("no") },
		"goexit":                func(context.Context, chan struct{}) error { runtimeGoexit(); return nil },
		"waits for its context": func(ctx context.Context, _ chan struct{}) error { <-ctx.Done(); return ctx.Err() },
		"ignores its context":   func(_ context.Context, never chan struct{}) error { <-never; return nil },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				never := make(chan struct{})
				defer close(never)
				var calls atomic.Int64
				store := outboxtest.NewStore()
				p := &place{
					deliver: func(*outbox.Delivery) error { return nil },
					fit: func(ctx context.Context) error {
						if n := calls.Add(1); n == 1 || n == 3 {
							return fit(ctx, never)
						}
						return nil
					},
				}
				publish(t, store, message("a", "", "1"))
				r := start(t, store, outbox.To(preflighter{p}), outbox.Config{})
				time.Sleep(time.Minute)
				if c := store.Counts(); c.Delivered != 1 {
					t.Errorf("%+v after %d calls", c, calls.Load())
				}
				time.Sleep(5*time.Minute - 58*time.Second) // into the next one
				began := time.Now()
				r.mustStop()
				if took := time.Since(began); took > 3*time.Second {
					t.Errorf("stop took %v", took)
				}
			})
		})
	}
}

// TestBreakerProbesWithAnother: a message that failed as the probe is followed by one of another key, and is not lost;
// no attempt is spent.
func TestBreakerProbesWithAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, began := outboxtest.NewStore(), time.Now()
		for k := range 5 {
			publish(t, store, messages(30, "a", fmt.Sprint("k", k))...)
		}
		var mu sync.Mutex
		last, probes := "", 0
		r := start(t, store, sinkOf(func(_ context.Context, d *outbox.Delivery) error {
			mu.Lock()
			defer mu.Unlock()
			away := time.Since(began) < 5*time.Minute
			if away && time.Since(began) > 0 { // not the first claim's messages, which fail together
				if probes++; d.Key == last {
					t.Errorf("two probes with %s", d.Key)
				}
				last = d.Key
			}
			if d.Attempt != 1 {
				t.Errorf("attempt %d", d.Attempt)
			}
			if away {
				return outbox.Unavailable(errDown)
			}
			return nil
		}), outbox.Config{MaxAttempts: 1})
		time.Sleep(5*time.Minute + 35*time.Second)
		r.mustStop()
		if c := store.Counts(); c.Delivered != 150 || probes < 12 || probes > 25 {
			t.Errorf("%+v, %d probes", c, probes)
		}
	})
}

// TestBreakerBlamesCulprit: a message that makes the destination unavailable again and again, while others are
// delivered, spends attempts and ends dead; the others flow, with and without a ping, and in front of its own key.
func TestBreakerBlamesCulprit(t *testing.T) {
	for _, pings := range []bool{false, true} {
		t.Run(fmt.Sprint("pings ", pings), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { testBlamesCulprit(t, pings) })
		})
	}
}

func testBlamesCulprit(t *testing.T, pings bool) {
	store := outboxtest.NewStore()
	p := &place{
		deliver: func(d *outbox.Delivery) error {
			if string(d.Payload) == "poison" {
				return outbox.Unavailable(errDown)
			}
			return nil
		},
		ping: func(context.Context) error { return nil },
	}
	var sink outbox.Sink = p
	if pings {
		sink = pinger{p}
	}
	publish(t, store, message("a", "k", "poison"))
	publish(t, store, messages(10, "a", "k")...)
	r := start(t, store, outbox.To(sink), outbox.Config{MaxAttempts: 3})
	for range 300 {
		publish(t, store, messages(10, "a", "")...)
		time.Sleep(2 * time.Second)
	}
	time.Sleep(10 * time.Second)
	r.mustStop()
	if c := store.Counts(); c.Delivered != 3010 || c.Dead != 1 {
		t.Errorf("%+v", c)
	}
	if dead := store.Dead(); len(dead) == 1 && (dead[0].Attempts != 3 || dead[0].Class != outbox.ClassUnavailable) {
		t.Errorf("dead after %d attempts of %s", dead[0].Attempts, dead[0].Class)
	}
}

// TestLateOpensNothing: one message that always exceeds its limit spends its attempts, and the breaker stays open.
func TestLateOpensNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, evs := outboxtest.NewStore(), &events{}
		publish(t, store, message("a", "", "late"))
		r := start(t, store, lateSink("late"), outbox.Config{HandlerTimeout: time.Second, MaxAttempts: 3, Hooks: evs.hooks()})
		for range 60 {
			publish(t, store, message("a", "", "good"))
			time.Sleep(time.Second)
		}
		r.mustStop()
		if c := store.Counts(); c.Delivered != 60 || c.Dead != 1 || evs.count(outbox.EventClosed) != 0 {
			t.Errorf("%+v, closed %d times", c, evs.count(outbox.EventClosed))
		}
	})
}

func lateSink(payload string) []outbox.Route {
	return sinkOf(func(ctx context.Context, d *outbox.Delivery) error {
		if string(d.Payload) != payload {
			return nil
		}
		<-ctx.Done()
		return ctx.Err()
	})
}

// TestLateClosesBreaker: when several different messages exceed their limit and none succeeds, the destination is at
// fault; two of them have spent an attempt.
func TestLateClosesBreaker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, evs := outboxtest.NewStore(), &events{}
		publish(t, store, messages(50, "a", "")...)
		began := time.Now()
		r := start(t, store, sinkOf(func(ctx context.Context, d *outbox.Delivery) error {
			if time.Since(began) > 10*time.Minute {
				return nil
			}
			<-ctx.Done()
			return ctx.Err()
		}), outbox.Config{HandlerTimeout: time.Second, MaxAttempts: 2, Hooks: evs.hooks(),
			Retry: outbox.RetryPolicy{Base: time.Minute, DisableJitter: true}})
		time.Sleep(11 * time.Minute)
		r.mustStop()
		if c := store.Counts(); c.Delivered != 50 || evs.count(outbox.EventClosed) == 0 {
			t.Errorf("%+v, closed %d times", c, evs.count(outbox.EventClosed))
		}
	})
}
