package outbox_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"testing"

	"github.com/outboxrelay/outbox"
	"github.com/outboxrelay/outbox/outboxtest"
)

// faultyStore is the store in memory with single calls replaced.
type faultyStore struct {
	*outboxtest.Store
	claim  func(ctx context.Context, q outbox.ClaimQuery) (outbox.Batch, error)
	settle func(ctx context.Context, os []outbox.Outcome) ([]outbox.Settled, error)
	beat   func(ctx context.Context, info outbox.RelayInfo, known []outbox.Token) (outbox.Orders, error)
}

func (f *faultyStore) Claim(ctx context.Context, q outbox.ClaimQuery) (outbox.Batch, error) {
	if f.claim != nil {
		return f.claim(ctx, q)
	}
	return f.Store.Claim(ctx, q)
}

func (f *faultyStore) Settle(ctx context.Context, os []outbox.Outcome) ([]outbox.Settled, error) {
	if f.settle != nil {
		return f.settle(ctx, os)
	}
	return f.Store.Settle(ctx, os)
}

func (f *faultyStore) Beat(ctx context.Context, info outbox.RelayInfo, known []outbox.Token) (outbox.Orders, error) {
	if f.beat != nil {
		return f.beat(ctx, info, known)
	}
	return f.Store.Beat(ctx, info, known)
}

func quiet() *slog.Logger { return slog.New(slog.NewTextHandler(io.Discard, nil)) }

// runner is a relay that runs.
type runner struct {
	*outbox.Relay
	t      *testing.T
	cancel context.CancelFunc
	result chan error
}

func start(t *testing.T, store outbox.Store, routes []outbox.Route, cfg outbox.Config) *runner {
	t.Helper()
	if cfg.Logger == nil {
		cfg.Logger = quiet()
	}
	relay, err := outbox.NewRelay(store, routes, &cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	r := &runner{Relay: relay, t: t, cancel: cancel, result: make(chan error, 1)}
	go func() { r.result <- relay.Run(ctx) }()
	return r
}

// stop stops the relay and returns Run's error.
func (r *runner) stop() error {
	r.t.Helper()
	r.cancel()
	return <-r.result
}

func (r *runner) mustStop() {
	r.t.Helper()
	if err := r.stop(); err != nil {
		r.t.Fatalf("Run: %v", err)
	}
}

func publish(t *testing.T, store *outboxtest.Store, ms ...outbox.Message) []outbox.Receipt {
	t.Helper()
	receipts, err := store.Publish(t.Context(), ms...)
	if err != nil {
		t.Fatal(err)
	}
	return receipts
}

func message(topic, key, payload string) outbox.Message {
	return outbox.Message{Topic: topic, Key: key, Payload: []byte(payload)}
}

func messages(n int, topic, key string) []outbox.Message {
	ms := make([]outbox.Message, n)
	for i := range ms {
		ms[i] = message(topic, key, fmt.Sprint(i))
	}
	return ms
}

func sinkOf(f func(ctx context.Context, d *outbox.Delivery) error) []outbox.Route {
	return outbox.To(outbox.SinkFunc(f))
}

func payloads(ds []outbox.Delivery) string {
	s := ""
	for _, d := range ds {
		s += string(d.Payload) + " "
	}
	return s
}
