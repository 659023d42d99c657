package rabbitsink

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

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

// TestRelaySurvives: connections cut, and closed by the server, in the middle of the messages. Everything is delivered
// in order per key, no attempt is spent, and one line tells of each outage.
func TestRelaySurvives(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	const keys, each = 10, 60
	rabbit.Private(t)
	h := newHarness(t, Config{})
	store, log := outboxtest.NewStore(), &syncBuffer{}
	run(t, h, store, log, func(delivered func(n int)) {
		for part, disturb := range []func() error{
			func() error { h.proxy.Cut(); return nil },
			func() error { return h.server.Ctl(t.Context(), "close_all_connections", "maintenance") },
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
			delivered((part + 1) * keys * each)
		}
	})
	if c := store.Counts(); c.Dead != 0 || c.Waiting != 0 || c.Claimed != 0 {
		t.Errorf("%+v", c)
	}
	last := map[any]int{}
	for _, m := range arrived(t, h) {
		var n int
		if _, err := fmt.Sscan(string(m.Body), &n); err != nil {
			t.Fatal(err)
		}
		key := m.Headers[headerKey]
		if n > last[key]+1 {
			t.Errorf("key %v: %d after %d", key, n, last[key])
		}
		last[key] = max(n, last[key])
	}
	if n := strings.Count(log.String(), `msg="destination is unavailable"`); n > 3 {
		t.Errorf("%d lines for 2 outages:\n%s", n, log)
	}
}

// TestRelayUnroutable: a message that no queue is bound for is retried, and dead in the end with the reason; the
// destination stays open for the others.
func TestRelayUnroutable(t *testing.T) {
	t.Parallel()
	h := newHarness(t, Config{})
	if err := h.server.Do(func(ch *amqp.Channel) error {
		return errors.Join(ch.QueueBind(h.queue, "sinktest.#", h.exchange, false, nil), ch.QueueUnbind(h.queue, "#", h.exchange, nil))
	}); err != nil {
		t.Fatal(err)
	}
	store, log := outboxtest.NewStore(), &syncBuffer{}
	if _, err := store.Publish(t.Context(), outbox.Message{Topic: "lost", MaxAttempts: 3}); err != nil {
		t.Fatal(err)
	}
	for i := range 50 {
		publishOne(t, store, fmt.Sprint("k", i), i)
	}
	run(t, h, store, log, func(delivered func(int)) {
		delivered(50)
		eventually(t, "the message is dead", func() bool { return store.Counts().Dead == 1 })
	})
	dead := store.Dead()
	if len(dead) != 1 || dead[0].Attempts != 3 || !strings.Contains(dead[0].Text, "no queue is bound to exchange") {
		t.Errorf("%+v", dead)
	}
	if strings.Contains(log.String(), "destination is unavailable") {
		t.Errorf("the destination was closed:\n%s", log)
	}
}

// run runs a relay with few retries to spend until the work is done; delivered waits for a number of messages.
func run(t *testing.T, h *harness, store *outboxtest.Store, log *syncBuffer, work func(delivered func(n int))) {
	t.Helper()
	routes := []outbox.Route{{Name: "events", Topics: []string{">"}, Sink: h.sink, Slots: 100, BatchSize: 40}}
	relay, err := outbox.NewRelay(store, routes, &outbox.Config{
		MaxAttempts: 1, Retry: outbox.RetryPolicy{Base: time.Millisecond, Max: time.Millisecond}, Logger: slog.New(slog.NewTextHandler(log, nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	result := make(chan error, 1)
	go func() { result <- relay.Run(ctx) }()
	work(func(n int) {
		t.Helper()
		for deadline := time.Now().Add(time.Minute); store.Counts().Delivered < n; time.Sleep(5 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("%+v instead of %d delivered, log:\n%s", store.Counts(), n, log)
			}
		}
	})
	cancel()
	if err := <-result; err != nil {
		t.Fatal(err)
	}
}

func publishOne(t *testing.T, store *outboxtest.Store, key string, n int) {
	t.Helper()
	if _, err := store.Publish(t.Context(), outbox.Message{Topic: "sinktest.a", Key: key, Payload: fmt.Append(nil, n)}); err != nil {
		t.Fatal(err)
	}
}
