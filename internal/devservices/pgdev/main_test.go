package pgdev

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"go.uber.org/goleak"

	"github.com/outboxrelay/outbox/internal/devservices"
)

// envChild makes the test binary play the parent that gets killed: "running" or "paused" is the state of its server.
const envChild = "OUTBOX_TEST_PGDEV_CHILD"

func TestMain(m *testing.M) {
	if state := os.Getenv(envChild); state != "" {
		os.Exit(serveForever(state))
	}
	goleak.VerifyTestMain(m)
}

func serveForever(state string) int {
	s, err := Start(context.Background(), Config{})
	if err == nil && state == "paused" {
		err = s.Pause()
	}
	if err != nil {
		fmt.Println(err)
		return 1
	}
	postmaster, err := s.postmaster()
	fmt.Println(s.Dir(), postmaster, err)
	time.Sleep(time.Hour) // the end comes by a signal
	return 0
}

// start starts a server that goes with the test; missing programs skip the test, but fail it in continuous integration.
func start(t *testing.T, cfg Config) *Server {
	t.Helper()
	s, err := Start(t.Context(), cfg)
	if errors.Is(err, devservices.ErrNotInstalled) && !devservices.ThisMachine().CI() {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func connect(t *testing.T, url string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close(context.Background()) })
	return conn
}

func mustExec(t *testing.T, conn *pgx.Conn, sql string) {
	t.Helper()
	if _, err := conn.Exec(t.Context(), sql); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

func queryText(t *testing.T, conn *pgx.Conn, sql string) string {
	t.Helper()
	var text string
	if err := conn.QueryRow(t.Context(), sql).Scan(&text); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return text
}

func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !condition(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within 30s: %s", what)
		}
	}
}

func wantInError(t *testing.T, err error, parts ...string) {
	t.Helper()
	if err == nil {
		t.Fatal("no error")
	}
	for _, part := range parts {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("error %q does not say %q", err, part)
		}
	}
}
