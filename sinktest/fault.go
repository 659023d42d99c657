package sinktest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/outboxrelay/outbox"
)

// orderOverRestarts: a relay sends a key's next message when the one before is delivered. The destination then has
// them in that order, whatever happens to it in between; copies of earlier ones may follow.
func orderOverRestarts(t TB, h Harness) {
	s := stopper(t, h)
	const keys, each = 5, 40
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	defer cancel()
	var senders sync.WaitGroup
	progress := make(chan struct{}, keys*each)
	for k := range keys {
		senders.Go(func() {
			for n := range each {
				d := message(n, fmt.Sprintf("%d %d", k, n))
				d.Key = fmt.Sprint("key ", k)
				untilAllDelivered(t, ctx, h, []*outbox.Delivery{d})
				progress <- struct{}{}
			}
		})
	}
	for range 3 {
		for range keys * each / 5 {
			<-progress
		}
		if err := errors.Join(s.Stop(ctx), s.Start(ctx)); err != nil {
			t.Error(err)
		}
	}
	senders.Wait()
	checkOrder(t, h, keys, each)
}

// checkOrder looks at the first copy of each message.
func checkOrder(t TB, h Harness, keys, each int) {
	t.Helper()
	all, err := h.Stored(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	next := make([]int, keys)
	for _, s := range all {
		var k, n int
		if _, err := fmt.Sscan(string(s.Payload), &k, &n); err != nil || k >= keys {
			t.Fatalf("a message that nobody sent: %.80q", s.Payload)
		}
		switch {
		case n > next[k]:
			t.Fatalf("message %d of key %d is there before number %d", n, k, next[k])
		case n == next[k]:
			next[k]++
		}
	}
	for k, n := range next {
		if n != each {
			t.Errorf("%d of the %d messages of key %d are there", n, each, k)
		}
	}
}

func freezer(t TB, h Harness) Freezer {
	t.Helper()
	f, ok := h.(Freezer)
	if !ok {
		t.Skip("the destination cannot be made silent")
	}
	return f
}

// silenceIsUnavailable: a destination that says nothing is told from a message that is wrong, and what it did not
// confirm is not called delivered.
func silenceIsUnavailable(t TB, h Harness) {
	f := freezer(t, h)
	before, after := message(0, "before"), message(1, "after")
	mustSend(t, h, before)
	if err := f.Freeze(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	ds := messages(20)
	for range 2 { // when it is found out, and when it is known
		for _, err := range send(t, ctx, h, ds...) {
			mustBe(t, "unavailable", err)
		}
	}
	mustBe(t, "unavailable", one(t, ctx, h, message(2, "alone")))
	if ctx.Err() != nil {
		t.Error("the silence was not noticed")
	}
	if err := f.Thaw(t.Context()); err != nil {
		t.Fatal(err)
	}
	untilDelivered(t, h, after)
	untilAllDelivered(t, ctx, h, ds)
	held := stored(t, h)
	for _, d := range append(ds, before, after) {
		mustHold(t, h, held, d)
	}
}

// cancelledInSilence: a call that waits for a silent destination ends with its context, without a verdict on the
// messages.
func cancelledInSilence(t TB, h Harness) {
	f := freezer(t, h)
	mustSend(t, h, message(0, "before"))
	if err := f.Freeze(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	ds := messages(20)
	began := time.Now()
	results := send(t, ctx, h, ds...)
	if took := time.Since(began); took > slack {
		t.Errorf("returned after %v", took)
	}
	for i, err := range results {
		if kind := kindOf(err); kind == "delivered" || kind == "permanent" {
			t.Errorf("message %d is %s: %v", i, kind, err)
		}
	}
	if err := f.Thaw(t.Context()); err != nil {
		t.Fatal(err)
	}
	whole, done := context.WithTimeout(t.Context(), patience)
	defer done()
	untilAllDelivered(t, whole, h, ds)
	held := stored(t, h)
	for _, d := range ds {
		mustHold(t, h, held, d)
	}
}
