package natssink

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/outboxrelay/outbox"
	"github.com/outboxrelay/outbox/internal/devservices/natsdev"
	"github.com/outboxrelay/outbox/internal/faultnet"
	"github.com/outboxrelay/outbox/sinktest"
)

func TestConformance(t *testing.T) {
	t.Parallel()
	sinktest.Run(t, func(t *testing.T) sinktest.Harness {
		t.Parallel()
		return newHarness(t, Config{})
	})
}

// TestConformanceUnnamed: without a named stream, whichever has the subject takes the message.
func TestConformanceUnnamed(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	t.Parallel()
	sinktest.Run(t, func(t *testing.T) sinktest.Harness {
		t.Parallel()
		h := newHarness(t, Config{})
		h.sink = open(t, h.server, Config{Topics: []string{"sinktest.>"}})
		return h
	})
}

// TestConformanceThroughFaults: with a proxy between, that cuts connections instead of a server that stops, and freezes
// them.
func TestConformanceThroughFaults(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	t.Parallel()
	sinktest.Run(t, func(t *testing.T) sinktest.Harness {
		t.Parallel()
		h := newHarness(t, Config{})
		proxy, err := faultnet.Start(fmt.Sprintf("127.0.0.1:%d", h.server.Port()))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := proxy.Close(); err != nil {
				t.Error(err)
			}
		})
		h.sink = openAt(t, "nats://"+proxy.Addr(), Config{Stream: streamName, AckTimeout: 2 * time.Second})
		return faulty{h, proxy}
	})
}

// TestConformancePipelined: the order of a call is kept.
func TestConformancePipelined(t *testing.T) {
	t.Parallel()
	for _, c := range sinktest.Cases() {
		if strings.Contains(c.Name, "pipelines") {
			t.Run(c.Name, func(t *testing.T) { c.Run(t, newHarness(t, Config{Pipeline: true})) })
		}
	}
}

// harness is a sink and a server of its own.
type harness struct {
	server *natsdev.Server
	sink   *Sink
}

// faulty is a harness whose sink goes through a proxy.
type faulty struct {
	*harness
	proxy *faultnet.Proxy
}

func (f faulty) Stop(context.Context) error   { f.proxy.Refuse(true); return nil }
func (f faulty) Start(context.Context) error  { f.proxy.Refuse(false); return nil }
func (f faulty) Freeze(context.Context) error { f.proxy.Freeze(); return nil }
func (f faulty) Thaw(context.Context) error   { f.proxy.Thaw(); return nil }

const streamName = "TEST"

func startServer(t *testing.T) *natsdev.Server {
	t.Helper()
	server, err := natsdev.Start(natsdev.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	})
	return server
}

func newHarness(t *testing.T, cfg Config) *harness {
	t.Helper()
	server := startServer(t)
	cfg.Stream, cfg.Create = streamName, true
	cfg.Topics = []string{"sinktest.>"}
	sink := open(t, server, cfg)
	if err := sink.Preflight(t.Context()); err != nil {
		t.Fatal(err)
	}
	return &harness{server, sink}
}

func open(t *testing.T, server *natsdev.Server, cfg Config) *Sink {
	t.Helper()
	return openAt(t, server.URL(), cfg)
}

func openAt(t *testing.T, url string, cfg Config) *Sink {
	t.Helper()
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.NewTextHandler(io.Discard, nil))
	}
	sink, err := Open(url, &cfg, nats.ReconnectWait(5*time.Millisecond), nats.ReconnectJitter(0, 0))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(sink.Close)
	return sink
}

func (h *harness) Sink() outbox.Sink { return h.sink }

func (h *harness) Features() sinktest.Features {
	return sinktest.Features{Deduplicates: true, TooLarge: 1 << 20, LineHeaders: true}
}

func (h *harness) Stop(context.Context) error {
	h.server.Stop()
	return nil
}

func (h *harness) Start(context.Context) error { return h.server.Start() }

func (h *harness) Stored(ctx context.Context) (all []sinktest.Stored, err error) {
	conn, err := nats.Connect(h.server.URL())
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	js, err := jetstream.New(conn)
	if err != nil {
		return nil, err
	}
	stream, err := js.Stream(ctx, streamName)
	if err != nil {
		return nil, err
	}
	for seq := uint64(1); seq <= stream.CachedInfo().State.LastSeq; seq++ {
		m, err := stream.GetMsg(ctx, seq)
		if err != nil {
			return nil, fmt.Errorf("message %d: %w", seq, err)
		}
		s := sinktest.Stored{Payload: m.Data, Headers: map[string]string{}}
		for name, values := range m.Header {
			s.Headers[name] = values[0]
		}
		all = append(all, s)
	}
	return all, nil
}
