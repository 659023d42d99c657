package sinktest

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/outboxrelay/outbox"
)

const (
	// patience bounds one call of a sink that works.
	patience = 30 * time.Second
	// slack is how much later than its context's end a call may return.
	slack = 3 * time.Second
)

// batches returns the sink as one of batches. A plain sink's messages are delivered together all the same, as the
// relay does it, each by a goroutine.
func batches(s outbox.Sink) outbox.BatchSink {
	if b, ok := s.(outbox.BatchSink); ok {
		return b
	}
	return together{s}
}

type together struct{ outbox.Sink }

func (s together) DeliverBatch(ctx context.Context, ds []*outbox.Delivery, report func(int, error)) error {
	var all sync.WaitGroup
	for i, d := range ds {
		all.Go(func() { report(i, s.Deliver(ctx, d)) })
	}
	all.Wait()
	return nil
}

// send delivers a batch, checks that every message has exactly one result, and returns them.
func send(t TB, ctx context.Context, h Harness, ds ...*outbox.Delivery) []error {
	t.Helper()
	var mu sync.Mutex
	results, counts, ended := make([]error, len(ds)), make([]int, len(ds)), false
	err := batches(h.Sink()).DeliverBatch(ctx, append([]*outbox.Delivery(nil), ds...), func(i int, err error) {
		mu.Lock()
		defer mu.Unlock()
		if i < 0 || i >= len(ds) || ended {
			t.Errorf("a result of message %d of %d, after the call: %v", i, len(ds), ended)
			return
		}
		results[i] = err
		counts[i]++
	})
	mu.Lock()
	defer mu.Unlock()
	ended = true
	for i, n := range counts {
		switch {
		case n > 1:
			t.Errorf("message %d has %d results", i, n)
		case n == 0 && err == nil:
			t.Errorf("message %d has no result, and the call no error", i)
		case n == 0:
			results[i] = err
		}
	}
	return results
}

// mustSend fails the test unless all are delivered.
func mustSend(t TB, h Harness, ds ...*outbox.Delivery) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for i, err := range send(t, ctx, h, ds...) {
		if err != nil {
			t.Fatalf("message %d of %d: %v", i, len(ds), err)
		}
	}
}

// one sends a single message, by a batch of one.
func one(t TB, ctx context.Context, h Harness, d *outbox.Delivery) error {
	t.Helper()
	return send(t, ctx, h, d)[0]
}

// message is a delivery with an id of its own.
func message(n int, payload string) *outbox.Delivery {
	return &outbox.Delivery{
		Message:     outbox.Message{ID: outbox.NewID(), Topic: "sinktest.case", Payload: []byte(payload)},
		Seq:         int64(n + 1),
		Attempt:     1,
		PublishedAt: time.Date(2026, 2, 3, 4, 5, 6, 789_000_000, time.FixedZone("", 3600)),
	}
}

func messages(n int) []*outbox.Delivery {
	ds := make([]*outbox.Delivery, n)
	for i := range ds {
		ds[i] = message(i, fmt.Sprint("payload ", i))
	}
	return ds
}

// stored returns what the destination holds, by message id.
func stored(t TB, h Harness) map[string][]Stored {
	t.Helper()
	all, err := h.Stored(t.Context())
	if err != nil {
		t.Fatalf("read the destination: %v", err)
	}
	byID := map[string][]Stored{}
	for _, s := range all {
		id := header(s, "Outbox-Id")
		byID[id] = append(byID[id], s)
	}
	return byID
}

func header(s Stored, name string) string {
	for other, value := range s.Headers {
		if strings.EqualFold(other, name) {
			return value
		}
	}
	return ""
}

// mustHold fails the test unless the destination holds the message, once if it deduplicates, and unchanged.
func mustHold(t TB, h Harness, held map[string][]Stored, d *outbox.Delivery) {
	t.Helper()
	copies := held[d.ID.String()]
	if len(copies) == 0 || len(copies) > 1 && h.Features().Deduplicates {
		t.Errorf("message %d is stored %d times", d.Seq, len(copies))
		return
	}
	for _, c := range copies {
		if !bytes.Equal(c.Payload, d.Payload) {
			t.Errorf("message %d is stored with other bytes: %d instead of %d", d.Seq, len(c.Payload), len(d.Payload))
		}
	}
}

// mustHoldOnly is mustHold for all that there is.
func mustHoldOnly(t TB, h Harness, ds ...*outbox.Delivery) {
	t.Helper()
	held := stored(t, h)
	if len(held) != len(ds) {
		t.Errorf("the destination holds %d messages instead of %d", len(held), len(ds))
	}
	for _, d := range ds {
		mustHold(t, h, held, d)
	}
}

// kindOf names a result.
func kindOf(err error) string {
	switch {
	case err == nil:
		return "delivered"
	case outbox.IsPermanent(err):
		return "permanent"
	case outbox.IsUnavailable(err):
		return "unavailable"
	}
	return "failed"
}

func mustBe(t TB, kind string, err error) {
	t.Helper()
	if got := kindOf(err); got != kind {
		t.Errorf("%s instead of %s: %v", got, kind, err)
	}
}
