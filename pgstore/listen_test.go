package pgstore

import (
	"bytes"
	"context"
	"log/slog"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outboxrelay/outbox/internal/faultnet"
)

// lockedBuffer is a log that may be read while it is written.
type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) count(text string) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return strings.Count(b.buf.String(), text)
}

// listening starts a store's listener, waits until it listens, and returns its log.
func listening(t *testing.T, url string, cfg *Config) (*Store, *lockedBuffer) {
	t.Helper()
	log := &lockedBuffer{}
	cfg.Logger = slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	store := newStore(t, url, cfg)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		store.Listen(ctx)
	}()
	t.Cleanup(func() { cancel(); <-done })
	return store, log
}

const listensLine = "listening for notifications"

func awaitLine(t *testing.T, log *lockedBuffer, line string, n int) {
	t.Helper()
	waitUntil(t, "the log says often enough: "+line, func() bool { return log.count(line) >= n })
}

// wakes reports whether a notification arrives.
func wakes(t *testing.T, store *Store, conn *pgx.Conn) bool {
	t.Helper()
	seen := store.signal.seen()
	exec(t, conn, "select pg_notify('outbox', '')")
	count, err := store.Wait(t.Context(), seen, time.Now().Add(5*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	return count > seen
}

// TestListenerComesBackAfterItsConnectionWasKilled: the server ends the listener's connection.
func TestListenerComesBackAfterItsConnectionWasKilled(t *testing.T) {
	t.Parallel()
	url := migratedDatabase(t)
	conn := connect(t, url)
	store, log := listening(t, url, &Config{})
	awaitLine(t, log, listensLine, 1)
	if !wakes(t, store, conn) {
		t.Fatal("no notification arrived")
	}
	if n := value[int](t, conn, `select count(pg_terminate_backend(pid)) from pg_stat_activity
		where datname = current_database() and query like 'listen %'`); n != 1 {
		t.Fatalf("%d listeners were ended", n)
	}
	awaitLine(t, log, listensLine, 2)
	if !wakes(t, store, conn) {
		t.Error("no notification arrived after the connection was made anew")
	}
	if n := log.count("cannot listen"); n != 1 {
		t.Errorf("the state changed once, the log says so %d times", n)
	}
}

// TestListenerComesBackFromABlackHole: nothing gets through any more, and nobody closes the connection.
func TestListenerComesBackFromABlackHole(t *testing.T) {
	t.Parallel()
	url := migratedDatabase(t)
	cfg, err := pgx.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	proxy, err := faultnet.Start(net.JoinHostPort(cfg.Host, strconv.Itoa(int(cfg.Port))))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { proxy.Close() })
	through := strings.Replace(url, net.JoinHostPort(cfg.Host, strconv.Itoa(int(cfg.Port))), proxy.Addr(), 1)
	store, log := listening(t, url, &Config{ListenURL: through})
	awaitLine(t, log, listensLine, 1)

	proxy.Freeze()
	awaitLine(t, log, "cannot listen", 1)
	proxy.Cut()
	proxy.Thaw()
	awaitLine(t, log, listensLine, 2)
	if !wakes(t, store, connect(t, url)) {
		t.Error("no notification arrived after the hole was closed")
	}
}

// A channel on which our own notification does not arrive, as behind a pooler, is told.
func TestListenerTellsThatNotificationsDoNotArrive(t *testing.T) {
	t.Parallel()
	elsewhere := migratedDatabase(t) // LISTEN works there, and hears nothing of this database
	store, log := listening(t, migratedDatabase(t), &Config{ListenURL: elsewhere})
	awaitLine(t, log, "notifications do not arrive", 1)
	if n := log.count(listensLine); n != 0 {
		t.Error("the store believes that it listens")
	}
	if _, err := store.Wait(t.Context(), 0, time.Now().Add(time.Millisecond)); err != nil {
		t.Error(err)
	}
}

func TestNotifyOffDoesNotListen(t *testing.T) {
	t.Parallel()
	store := newStore(t, migratedDatabase(t), &Config{Notify: NotifyOff})
	store.Listen(t.Context()) // returns at once
}
