package e2e

import (
	"context"
	"testing"
	"time"

	"github.com/outboxrelay/outbox/internal/crashtest"
	"github.com/outboxrelay/outbox/internal/devservices/pgdev"
	"github.com/outboxrelay/outbox/internal/history"
)

// TestDatabaseCrashes: PostgreSQL crashes under load, with asynchronous settles.
func TestDatabaseCrashes(t *testing.T) {
	plays(t)
	server, db := newServer(t)
	h := crashtest.New(t)
	p := plan{URL: db.url, Lease: 3 * time.Second, Slots: 50, FailEvery: 50, AsyncSettle: true, Seed: 5, Messages: 6000, Keys: 100, Pause: time.Millisecond}
	relays := startRelays(h, p, 2)
	publisher := h.Start("publisher", crashtest.Options{Env: p.env()})
	for range 3 {
		awaitProgress(t, db)
		stop(t, h, server, pgdev.Immediate)
	}
	finish(t, h, db, publisher, relays, history.Options{SettleLoss: int64(time.Second)})
}

// TestDatabaseFaults: the database is frozen, restarted and hangs up, in the middle of a drain.
func TestDatabaseFaults(t *testing.T) {
	plays(t)
	server, db := newServer(t)
	h := crashtest.New(t)
	p := plan{URL: db.url, Lease: 3 * time.Second, Slots: 50, FailEvery: 50, Seed: 7, Messages: 6000, Keys: 100, Pause: time.Millisecond}
	relays := startRelays(h, p, 2)
	publisher := h.Start("publisher", crashtest.Options{Env: p.env()})

	awaitProgress(t, db)
	if err := server.Pause(); err != nil {
		t.Fatal(err)
	}
	time.Sleep(3 * time.Second) // the case's own figure: longer than the lease
	if err := server.Resume(); err != nil {
		t.Fatal(err)
	}
	awaitProgress(t, db)
	stop(t, h, server, pgdev.Fast)
	awaitProgress(t, db)
	if _, err := server.Cluster().Terminate(t.Context(), ""); err != nil {
		t.Fatal(err)
	}
	finish(t, h, db, publisher, relays, history.Options{})
}

func startRelays(h *crashtest.Harness, p plan, n int) []*crashtest.Process {
	relays := make([]*crashtest.Process, n)
	for i := range relays {
		relays[i] = h.Start("relay", crashtest.Options{Env: p.env()})
		relays[i].Await("ready")
	}
	return relays
}

// awaitProgress waits until messages are being delivered: some have gone since it was called.
func awaitProgress(t *testing.T, db *database) {
	t.Helper()
	last := -1
	until(t, 30*time.Second, "messages are delivered", func() bool {
		highest := db.count(t.Context(), "select coalesce(max(floor), 0) from outbox.claim")
		if highest <= 0 {
			return false
		}
		if last < 0 {
			last = highest
		}
		return highest > last
	})
}

// stop stops the server and starts it again.
func stop(t *testing.T, h *crashtest.Harness, server *pgdev.Server, mode pgdev.Mode) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := h.Log().Append(history.Event{Kind: history.Disturbed, Detail: "stopped"}); err != nil {
		t.Fatal(err)
	}
	if err := server.Stop(ctx, mode); err != nil {
		t.Fatal(err)
	}
	if err := server.Start(ctx); err != nil {
		t.Fatal(err)
	}
}

func finish(t *testing.T, h *crashtest.Harness, db *database, publisher *crashtest.Process, relays []*crashtest.Process, o history.Options) {
	t.Helper()
	publisher.Await("published")
	publisher.Wait()
	db.drained(t, 3*time.Minute)
	for _, r := range relays {
		r.Terminate()
	}
	counts := h.Check(o)
	t.Logf("%+v", counts)
	if counts.Committed < 5000 {
		t.Errorf("the test did not do what it was meant to: %+v", counts)
	}
	if n := db.count(t.Context(), dead); n != 0 {
		t.Errorf("%d messages are dead", n)
	}
}
