package inbox_test

import (
	"context"
	"os"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outboxrelay/outbox/inbox"
	"github.com/outboxrelay/outbox/internal/devservices/pgtest"
)

var postgres pgtest.Shared

func TestMain(m *testing.M) { os.Exit(postgres.Run(m)) }

func newPool(t *testing.T) *pgxpool.Pool {
	t.Helper()
	pool, err := pgxpool.New(t.Context(), postgres.Database(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pool
}

// newInbox makes an inbox in a database of its own, with a table for effects.
func newInbox(t *testing.T) (*inbox.Inbox, *pgxpool.Pool) {
	t.Helper()
	pool := newPool(t)
	box, err := inbox.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := box.Migrate(t.Context(), pool); err != nil {
		t.Fatal(err)
	}
	exec(t, pool, "create table effect (id text)")
	return box, pool
}

func exec(t *testing.T, pool *pgxpool.Pool, sql string) {
	t.Helper()
	if _, err := pool.Exec(t.Context(), sql); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

func count(t *testing.T, pool *pgxpool.Pool, sql string) (n int) {
	t.Helper()
	if err := pool.QueryRow(context.WithoutCancel(t.Context()), sql).Scan(&n); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return n
}
