package rabbitsink

import (
	"context"
	"io"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/outboxrelay/outbox"
	"github.com/outboxrelay/outbox/internal/devservices/rabbitdev"
	"github.com/outboxrelay/outbox/internal/faultnet"
	"github.com/outboxrelay/outbox/sinktest"
)

func TestConformance(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	t.Parallel()
	sinktest.Run(t, func(t *testing.T) sinktest.Harness {
		t.Parallel()
		return newHarness(t, Config{ConfirmTimeout: 2 * time.Second, ConnectTimeout: time.Second})
	})
}

// harness is a sink with an exchange of its own, a queue that gets everything, and a proxy before the server.
type harness struct {
	server   *rabbitdev.Server
	proxy    *faultnet.Proxy
	exchange string
	queue    string
	sink     *Sink
}

func newHarness(t *testing.T, cfg Config) *harness {
	t.Helper()
	server := rabbit.Server(t)
	proxy, err := faultnet.Start(server.Addr())
	if err != nil {
		t.Fatal(err)
	}
	name := "test-" + strings.ToLower(outbox.NewID().String())
	h := &harness{server: server, proxy: proxy, exchange: name, queue: name}
	if err := server.Bind(h.exchange, h.queue, "#", nil); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := proxy.Close(); err != nil {
			t.Error(err)
		}
		if err := server.Delete(h.exchange, h.queue); err != nil {
			t.Error(err)
		}
	})
	cfg.Exchange = name
	h.sink = open(t, server.Through(proxy.Addr()), cfg)
	return h
}

func open(t *testing.T, url string, cfg Config) *Sink {
	t.Helper()
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.NewTextHandler(io.Discard, nil))
	}
	sink, err := Open(url, &cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(sink.Close)
	return sink
}

func (h *harness) Sink() outbox.Sink { return h.sink }

func (h *harness) Features() sinktest.Features {
	if !h.server.IsPrivate() {
		return sinktest.Features{} // its limit is not known
	}
	return sinktest.Features{TooLarge: rabbitdev.MaxMessage + 1}
}

func (h *harness) Stop(context.Context) error {
	h.proxy.Refuse(true)
	return nil
}

func (h *harness) Start(context.Context) error {
	h.proxy.Refuse(false)
	return nil
}

func (h *harness) Freeze(context.Context) error {
	h.proxy.Freeze()
	return nil
}

func (h *harness) Thaw(context.Context) error {
	h.proxy.Thaw()
	return nil
}

func (h *harness) Stored(context.Context) (all []sinktest.Stored, err error) {
	messages, err := h.server.Messages(h.queue)
	for _, m := range messages {
		s := sinktest.Stored{Payload: m.Body, Headers: map[string]string{}}
		if m.ContentType != "" {
			s.Headers["content-type"] = m.ContentType
		}
		for name, value := range m.Headers {
			s.Headers[name], _ = value.(string)
		}
		all = append(all, s)
	}
	return all, err
}

// mustSend delivers and wants success.
func mustSend(t *testing.T, s *Sink, ds ...*outbox.Delivery) {
	t.Helper()
	for i, err := range send(t, s, ds...) {
		if err != nil {
			t.Fatalf("message %d: %v", i, err)
		}
	}
}

func send(t *testing.T, s *Sink, ds ...*outbox.Delivery) []error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	return sendWith(ctx, s, ds...)
}

func sendWith(ctx context.Context, s *Sink, ds ...*outbox.Delivery) []error {
	type result struct {
		i   int
		err error
	}
	reports := make(chan result, len(ds))
	err := s.DeliverBatch(ctx, ds, func(i int, err error) { reports <- result{i, err} })
	results := make([]error, len(ds))
	for i := range results {
		results[i] = err
	}
	close(reports)
	for r := range reports {
		results[r.i] = r.err
	}
	return results
}

func message(topic, payload string) *outbox.Delivery {
	return &outbox.Delivery{
		Message: outbox.Message{ID: outbox.NewID(), Topic: topic, Payload: []byte(payload)},
		Seq:     1, Attempt: 1, PublishedAt: time.Date(2026, 2, 3, 4, 5, 6, 789_000_000, time.UTC),
	}
}
