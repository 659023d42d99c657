package pgstore

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outboxrelay/outbox"
	"github.com/outboxrelay/outbox/internal/faultnet"
	"github.com/outboxrelay/outbox/outboxtest"
)

// TestLateServer: behind a slow network, a first heartbeat and a first claim, with all that a new connection has to do, take
// a few ways there and back, and not one for each statement.
func TestLateServer(t *testing.T) {
	t.Parallel()
	url := migratedDatabase(t)
	conn := connect(t, url)
	cfg, err := pgx.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	addr := fmt.Sprintf("%s:%d", cfg.Host, cfg.Port)
	proxy, err := faultnet.Start(addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { proxy.Close() })
	store := newStore(t, strings.Replace(url, addr, proxy.Addr(), 1), nil)
	insert(t, conn, "late", 1, 0)
	const delay, ways = 200 * time.Millisecond, 6 // to connect, to prepare and to ask, and the rest for a machine that is busy
	proxy.Delay(delay)
	relay := newTestRelay(t, store, ">") // registers, and looks for others that hold something
	relay.store.relay(relay.info.ID).disconnect()
	relay.store.relay(relay.info.ID).forgotten = false
	for what, ask := range map[string]func(context.Context) error{
		"heartbeat": func(ctx context.Context) error {
			_, err := store.Beat(ctx, relay.info, nil)
			return err
		},
		"claim": func(ctx context.Context) error {
			batch, err := store.Claim(ctx, relay.query(1))
			if err == nil && len(batch.Claims) != 1 {
				t.Errorf("claimed %+v", batch)
			}
			return err
		},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), ways*2*delay)
		began := time.Now()
		if err := ask(ctx); err != nil {
			t.Errorf("%s: %v", what, err)
		}
		t.Logf("%s took %.1f ways", what, time.Since(began).Seconds()/(2*delay).Seconds())
		cancel()
	}
}

// TestShortLeaseOnALateServer: where a new connection takes longer than a third of the lease, and so does a claim that has to make one, a relay
// delivers: only its heartbeats have to be in time.
func TestShortLeaseOnALateServer(t *testing.T) {
	t.Parallel()
	url := migratedDatabase(t)
	cfg, err := pgx.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	addr := fmt.Sprintf("%s:%d", cfg.Host, cfg.Port)
	proxy, err := faultnet.Start(addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { proxy.Close() })
	proxy.Delay(60 * time.Millisecond)
	insert(t, connect(t, url), "late", 20, 0)
	store := newStore(t, strings.Replace(url, addr, proxy.Addr(), 1), &Config{Logger: slog.New(slog.DiscardHandler)})
	sink := &outboxtest.Recorder{}
	relay, err := outbox.NewRelay(store, outbox.To(sink), &outbox.Config{Lease: time.Second, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- relay.Run(ctx) }()
	waitUntil(t, "everything is delivered", func() bool { return len(sink.Deliveries()) >= 20 })
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}
