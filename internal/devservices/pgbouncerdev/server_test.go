package pgbouncerdev

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/outboxrelay/outbox/internal/devservices"
	"github.com/outboxrelay/outbox/internal/devservices/pgtest"
)

var postgres pgtest.Shared

func TestMain(m *testing.M) { os.Exit(postgres.Run(m)) }

// pooler starts one before the tests' server.
func pooler(t *testing.T, url string, cfg Config) *Server {
	t.Helper()
	s, err := Start(t.Context(), url, cfg)
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

// TestTransactionMode: two clients take turns on the one connection to the server, transaction by transaction.
func TestTransactionMode(t *testing.T) {
	url := postgres.Database(t)
	database := database(t, url)
	s := pooler(t, url, Config{PoolSize: 1})
	backend := func(conn *pgx.Conn) (pid int) {
		t.Helper()
		if err := conn.QueryRow(t.Context(), "select pg_backend_pid()", pgx.QueryExecModeExec).Scan(&pid); err != nil {
			t.Fatal(err)
		}
		return pid
	}
	first, second := connect(t, s.URL(database)), connect(t, s.URL(database))
	if a, b := backend(first), backend(second); a != b {
		t.Errorf("two clients have connections %d and %d", a, b)
	}
}

func database(t *testing.T, url string) string {
	t.Helper()
	cfg, err := pgx.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	return cfg.Database
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

func TestClose(t *testing.T) {
	url := postgres.Database(t)
	s := pooler(t, url, Config{})
	dir, pooled := s.sup.Dir, s.URL(database(t, url))
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if conn, err := pgx.Connect(t.Context(), pooled); err == nil {
		conn.Close(t.Context())
		t.Error("it still listens")
	}
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("folder: %v", err)
	}
}

// TestRestart: connections are cut, and new ones are made at the same place.
func TestRestart(t *testing.T) {
	url := postgres.Database(t)
	s := pooler(t, url, Config{})
	pooled := s.URL(database(t, url))
	for range 2 {
		conn := connect(t, pooled)
		if err := s.Restart(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := conn.Ping(t.Context()); err == nil {
			t.Error("the connection is still there")
		}
		connect(t, pooled)
	}
}

// TestPortTaken: a port that somebody else took in the meantime is given up for another.
func TestPortTaken(t *testing.T) {
	url := postgres.Database(t)
	first := pooler(t, url, Config{})
	ports := []int{first.port}
	second, err := start(t.Context(), url, Config{}, func() (int, error) {
		if len(ports) == 0 {
			return devservices.FreePort()
		}
		port := ports[0]
		ports = ports[1:]
		return port, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	defer second.Close()
	if second.port == first.port {
		t.Error("two poolers have one port", second.Log())
	}
	connect(t, second.URL(database(t, url)))
}

func TestNotInstalled(t *testing.T) {
	machine := devservices.Machine{Getenv: func(string) string { return "" }, Log: &bytes.Buffer{}}
	_, err := find(t.Context(), machine, []string{filepath.Join(t.TempDir(), "pgbouncer")})
	if !errors.Is(err, devservices.ErrNotInstalled) {
		t.Errorf("error %v", err)
	}
	if _, err := Start(t.Context(), "no url", Config{}); err == nil {
		t.Error("a server without URL is accepted")
	}
}

func TestKeepsPreparedStatements(t *testing.T) {
	for version, want := range map[string]bool{"1.18.0": false, "1.20.1": false, "1.21.0": true, "1.24.0": true, "2.0": true, "x": false} {
		if got := (program{version: version}).keepsPreparedStatements(); got != want {
			t.Errorf("%s: %v", version, got)
		}
	}
}
