package natssink

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/outboxrelay/outbox"
	"github.com/outboxrelay/outbox/outboxtest"
)

// syncBuffer is a log that can be read while it is written.
type syncBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// TestRelaySurvives: connections cut, the server restarted, the stream deleted and made again, in the middle of the
// messages: everything is delivered in order per key, nothing is dead, no attempt is spent.
func TestRelaySurvives(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	t.Parallel()
	const keys, each = 20, 100
	h := newHarness(t, Config{AckTimeout: time.Second})
	_, js := client(t, h.server)
	store, log := outboxtest.NewStore(), &syncBuffer{}
	routes := []outbox.Route{{Name: "events", Topics: []string{">"}, Sink: h.sink, Slots: 100, BatchSize: 40}}
	relay, err := outbox.NewRelay(store, routes, &outbox.Config{MaxAttempts: 1, Logger: slog.New(slog.NewTextHandler(log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	result := make(chan error, 1)
	go func() { result <- relay.Run(ctx) }()
	delivered := 0
	for part, disturb := range []func() error{
		func() error { _, err := h.server.Terminate(); return err },
		h.server.Restart,
		func() error { return js.DeleteStream(ctx, streamName) },
		func() error { return nil },
	} {
		for i := range each {
			for k := range keys {
				publishOne(t, store, fmt.Sprint("k", k), part*each+i)
			}
			if i == each/2 {
				if err := disturb(); err != nil {
					t.Fatal(err)
				}
			}
		}
		delivered += keys * each
		awaitDelivered(t, store, delivered, log)
	}
	cancel()
	if err := <-result; err != nil {
		t.Fatal(err)
	}
	if c := store.Counts(); c.Dead != 0 || c.Waiting != 0 || c.Claimed != 0 {
		t.Errorf("%+v", c)
	}
	if n := strings.Count(log.String(), `msg="destination is unavailable"`); n > 3 {
		t.Errorf("%d lines for 3 outages:\n%s", n, log)
	}
	checkOrder(t, h, keys*each)
}

func publishOne(t *testing.T, store *outboxtest.Store, key string, n int) {
	t.Helper()
	if _, err := store.Publish(t.Context(), outbox.Message{Topic: "sinktest.a", Key: key, Payload: fmt.Append(nil, n)}); err != nil {
		t.Fatal(err)
	}
}

func awaitDelivered(t *testing.T, store *outboxtest.Store, n int, log *syncBuffer) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); store.Counts().Delivered < n; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%+v instead of %d delivered, log:\n%s", store.Counts(), n, log)
		}
	}
}

// checkOrder reads the stream back: what was stored after it was made again is in order, without copies.
func checkOrder(t *testing.T, h *harness, atLeast int) {
	t.Helper()
	all, err := h.Stored(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(all) < atLeast {
		t.Errorf("the stream holds %d messages, less than %d", len(all), atLeast)
	}
	last := map[string]int{}
	for _, s := range all {
		var n int
		if _, err := fmt.Sscan(string(s.Payload), &n); err != nil {
			t.Fatal(err)
		}
		key := s.Headers[headerKey]
		if before, ok := last[key]; ok && n != before+1 {
			t.Errorf("key %s: %d after %d", key, n, before)
		}
		last[key] = n
	}
}

// TestRelayOversized: one message too large among others is dead, with its reason, and the others are delivered.
func TestRelayOversized(t *testing.T) {
	t.Parallel()
	h := newHarness(t, Config{})
	store := outboxtest.NewStore(outboxtest.WithMaxPayload(4 << 20))
	for i := range 100 {
		m := outbox.Message{Topic: "sinktest.a", Payload: fmt.Append(nil, i)}
		if i == 50 {
			m.Payload = make([]byte, 2<<20)
		}
		if _, err := store.Publish(t.Context(), m); err != nil {
			t.Fatal(err)
		}
	}
	relay, err := outbox.NewRelay(store, outbox.To(h.sink), &outbox.Config{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	n, err := relay.RunUntilIdle(t.Context())
	if err != nil || n.Delivered != 99 || n.Dead != 1 || n.GivenBack != 0 {
		t.Errorf("%+v, %v", n, err)
	}
	if dead := store.Dead(); len(dead) != 1 || !strings.Contains(dead[0].Text, "max_payload") {
		t.Errorf("dead: %+v", dead)
	}
}

// TestRelaySilent: a message that is never acknowledged, though the stream answers, ends dead; the others flow.
func TestRelaySilent(t *testing.T) {
	t.Parallel()
	h := newHarness(t, Config{AckTimeout: 50 * time.Millisecond})
	conn, js := client(t, h.server)
	if _, err := conn.SubscribeSync("sinktest.silent"); err != nil {
		t.Fatal(err)
	}
	if err := conn.Flush(); err != nil {
		t.Fatal(err)
	}
	store := outboxtest.NewStore()
	relay, err := outbox.NewRelay(store, outbox.To(h.sink), &outbox.Config{
		MaxAttempts: 3, Retry: outbox.RetryPolicy{Base: 10 * time.Millisecond}, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	result := make(chan error, 1)
	go func() { result <- relay.Run(ctx) }()
	<-relay.Ready() // after that the stream is looked at again when a message is not acknowledged
	if _, err := js.UpdateStream(ctx, jetstream.StreamConfig{Name: streamName, Subjects: []string{"sinktest.a"}}); err != nil {
		t.Fatal(err)
	}
	if _, err := store.Publish(t.Context(), outbox.Message{Topic: "sinktest.silent"}); err != nil {
		t.Fatal(err)
	}
	sent := 0
	for deadline := time.Now().Add(time.Minute); store.Counts().Dead == 0 && time.Now().Before(deadline); sent++ {
		publishOne(t, store, "", sent)
		time.Sleep(time.Millisecond)
	}
	awaitDelivered(t, store, sent, &syncBuffer{})
	cancel()
	if err := <-result; err != nil {
		t.Fatal(err)
	}
	if dead := store.Dead(); len(dead) != 1 || dead[0].Attempts != 3 || !strings.Contains(dead[0].Text, "no acknowledgement within") {
		t.Errorf("dead: %+v", dead)
	}
}

// TestRelayForeignSubject: topics that the stream does not have fail by themselves, whatever answers for their subjects:
// nothing, somebody else, another stream, or a subscriber that keeps silent. The destination stays available.
func TestRelayForeignSubject(t *testing.T) {
	t.Parallel()
	h := newHarness(t, Config{AckTimeout: 200 * time.Millisecond})
	conn, js := client(t, h.server)
	if _, err := js.UpdateStream(t.Context(), jetstream.StreamConfig{Name: streamName, Subjects: []string{"sinktest.a", "sinktest.b.>"}}); err != nil {
		t.Fatal(err)
	}
	if _, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "OTHER", Subjects: []string{"sinktest.other"}}); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Subscribe("sinktest.garbage", func(m *nats.Msg) { _ = m.Respond([]byte("pong")) }); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.SubscribeSync("sinktest.silent"); err != nil {
		t.Fatal(err)
	}
	if err := conn.Flush(); err != nil {
		t.Fatal(err)
	}
	store, log := outboxtest.NewStore(), &syncBuffer{}
	foreign := []string{"sinktest.none", "sinktest.nothing", "sinktest.garbage", "sinktest.other", "sinktest.silent", "sinktest.b"}
	for _, topic := range foreign {
		if _, err := store.Publish(t.Context(), outbox.Message{Topic: topic, MaxAttempts: 2}); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 100 {
		publishOne(t, store, fmt.Sprint("k", i%7), i)
	}
	relay, err := outbox.NewRelay(store, outbox.To(h.sink), &outbox.Config{
		Retry: outbox.RetryPolicy{Base: 10 * time.Millisecond}, Logger: slog.New(slog.NewTextHandler(log, nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	result := make(chan error, 1)
	go func() { result <- relay.Run(ctx) }()
	awaitDelivered(t, store, 100, log)
	for deadline := time.Now().Add(time.Minute); store.Counts().Dead < len(foreign) && time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
	}
	cancel()
	if err := <-result; err != nil {
		t.Fatal(err)
	}
	for _, d := range store.Dead() {
		if d.Attempts != 2 || !strings.Contains(d.Text, "sinktest.a, sinktest.b.>") {
			t.Errorf("dead: %+v", d)
		}
	}
	if n := len(store.Dead()); n != len(foreign) || strings.Contains(log.String(), "unavailable") {
		t.Errorf("%d of %d are dead, log:\n%s", n, len(foreign), log)
	}
}

// counted counts the calls that a sink gets.
type counted struct {
	*Sink
	calls atomic.Int64
}

func (c *counted) DeliverBatch(ctx context.Context, ds []*outbox.Delivery, report func(i int, err error)) error {
	c.calls.Add(1)
	return c.Sink.DeliverBatch(ctx, ds, report)
}

// TestRelayPipelines: the messages of one key are sent one by one, and in calls of many if the sink is told to pipeline.
// They are stored in order either way.
func TestRelayPipelines(t *testing.T) {
	t.Parallel()
	const n = 500
	for _, pipeline := range []bool{false, true} {
		t.Run(fmt.Sprint(pipeline), func(t *testing.T) {
			h := newHarness(t, Config{Pipeline: pipeline})
			store, log, sink := outboxtest.NewStore(), &syncBuffer{}, &counted{Sink: h.sink}
			for i := range n {
				publishOne(t, store, "k", i)
			}
			relay, err := outbox.NewRelay(store, outbox.To(sink), &outbox.Config{Logger: slog.New(slog.NewTextHandler(log, nil))})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := relay.RunUntilIdle(t.Context()); err != nil {
				t.Fatal(err)
			}
			awaitDelivered(t, store, n, log)
			if calls := sink.calls.Load(); pipeline && calls > 10 || !pipeline && calls < n {
				t.Errorf("%d calls for %d messages", calls, n)
			}
			all, err := h.Stored(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			for i, s := range all {
				if len(all) != n || string(s.Payload) != fmt.Sprint(i) {
					t.Fatalf("%d messages are stored, number %d is %s", len(all), i, s.Payload)
				}
			}
		})
	}
}
