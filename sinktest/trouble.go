package sinktest

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/outboxrelay/outbox"
)

// manyCalls: batches and single messages at the same time, as many as a relay has slots.
func manyCalls(t TB, h Harness) {
	const calls, size = 20, 50
	var all sync.WaitGroup
	var ds []*outbox.Delivery
	for c := range calls {
		batch := messages(size)
		for _, d := range batch {
			d.Payload = fmt.Appendf(nil, "call %d: %s", c, d.Payload)
		}
		single := message(size, fmt.Sprint("single ", c))
		ds = append(append(ds, batch...), single)
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		all.Go(func() {
			for _, err := range send(t, ctx, h, batch...) {
				mustBe(t, "delivered", err)
			}
		})
		all.Go(func() { mustBe(t, "delivered", h.Sink().Deliver(ctx, single)) })
	}
	all.Wait()
	mustHoldOnly(t, h, ds...)
}

// endedContext: a call that begins too late returns at once, and what it calls delivered is stored.
func endedContext(t TB, h Harness) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	ds := messages(100)
	began := time.Now()
	results := send(t, ctx, h, ds...)
	if took := time.Since(began); took > slack {
		t.Errorf("returned after %v", took)
	}
	held := stored(t, h)
	for i, err := range results {
		if err == nil {
			mustHold(t, h, held, ds[i])
		}
		if kindOf(err) == "permanent" {
			t.Errorf("message %d is dead because the relay stopped: %v", i, err)
		}
	}
	mustSend(t, h, ds...)
	held = stored(t, h)
	for _, d := range ds {
		mustHold(t, h, held, d)
	}
}

func stopper(t TB, h Harness) Stopper {
	t.Helper()
	s, ok := h.(Stopper)
	if !ok {
		t.Skip("the destination cannot be stopped")
	}
	return s
}

// awayIsUnavailable: a destination that is away is nobody's failed attempt, and is found again by itself.
func awayIsUnavailable(t TB, h Harness) {
	s := stopper(t, h)
	mustSend(t, h, message(0, "before"))
	if err := s.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for _, err := range send(t, ctx, h, messages(20)...) {
		mustBe(t, "unavailable", err)
	}
	mustBe(t, "unavailable", one(t, ctx, h, message(0, "alone")))
	checkAsked(t, ctx, h, true)
	if err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	after := message(1, "after")
	untilDelivered(t, h, after)
	checkAsked(t, ctx, h, false)
	mustHold(t, h, stored(t, h), after)
}

// checkAsked: what the sink says about its destination agrees with what is the case.
func checkAsked(t TB, ctx context.Context, h Harness, away bool) {
	t.Helper()
	if p, ok := h.Sink().(outbox.Pinger); ok {
		if err := p.Ping(ctx); (err != nil) != away {
			t.Errorf("away: %v, but the ping says %v", away, err)
		}
	}
	if p, ok := h.Sink().(outbox.Preflighter); ok {
		if err := p.Preflight(ctx); (err != nil) != away {
			t.Errorf("away: %v, but the preflight says %v", away, err)
		}
	}
}

// untilDelivered sends a message until the destination is there again; until then it is unavailable and nothing else.
func untilDelivered(t TB, h Harness, d *outbox.Delivery) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for {
		err := one(t, ctx, h, d)
		if err == nil {
			return
		}
		if kindOf(err) != "unavailable" || ctx.Err() != nil {
			t.Fatalf("%s: %v", kindOf(err), err)
		}
		pause(ctx, 5*time.Millisecond)
	}
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// deadlineWhileAway: a call does not outlive its context, whatever the destination does.
func deadlineWhileAway(t TB, h Harness) {
	s := stopper(t, h)
	if err := s.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	began := time.Now()
	results := send(t, ctx, h, messages(20)...)
	if took := time.Since(began); took > slack {
		t.Errorf("returned after %v", took)
	}
	for _, err := range results {
		if kind := kindOf(err); kind == "delivered" || kind == "permanent" {
			t.Errorf("%s: %v", kind, err)
		}
	}
	if err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// restartUnderLoad: whatever was acknowledged is stored, whatever was not is unavailable, and in the end everything is
// delivered.
func restartUnderLoad(t TB, h Harness) {
	s := stopper(t, h)
	const senders, batchesEach, size = 4, 40, 25
	var all sync.WaitGroup
	var mu sync.Mutex
	var ds []*outbox.Delivery
	begun := make(chan struct{}, senders*batchesEach)
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	defer cancel()
	for range senders {
		all.Go(func() {
			for range batchesEach {
				batch := messages(size)
				mu.Lock()
				ds = append(ds, batch...)
				mu.Unlock()
				untilAllDelivered(t, ctx, h, batch)
				begun <- struct{}{}
				pause(ctx, time.Millisecond)
			}
		})
	}
	for range 2 {
		for range senders * batchesEach / 4 {
			<-begun
		}
		if err := s.Stop(ctx); err != nil {
			t.Error(err)
		}
		pause(ctx, 20*time.Millisecond) // the senders meet its absence
		if err := s.Start(ctx); err != nil {
			t.Error(err)
		}
	}
	all.Wait()
	held := stored(t, h)
	for _, d := range ds {
		mustHold(t, h, held, d)
	}
}

// untilAllDelivered repeats what was unavailable, as the relay does.
func untilAllDelivered(t TB, ctx context.Context, h Harness, ds []*outbox.Delivery) {
	for len(ds) > 0 {
		var rest []*outbox.Delivery
		for i, err := range send(t, ctx, h, ds...) {
			switch {
			case err == nil:
			case kindOf(err) == "unavailable" && ctx.Err() == nil:
				rest = append(rest, ds[i])
			default:
				t.Errorf("%s during a restart: %v", kindOf(err), err)
				return
			}
		}
		if ds = rest; len(ds) > 0 {
			pause(ctx, 5*time.Millisecond)
		}
	}
}
