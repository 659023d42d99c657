package e2e

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outboxrelay/outbox/internal/devservices/pgdev"
	"github.com/outboxrelay/outbox/internal/devservices/pgtest"
	"github.com/outboxrelay/outbox/pgstore"
)

// database is the outbox of one test, as the test itself looks at it.
type database struct {
	url  string
	pool *pgxpool.Pool
}

func migrate(ctx context.Context, url string) error {
	cfg, err := pgx.ParseConfig(url)
	if err != nil {
		return err
	}
	m, err := pgstore.NewMigrator(cfg, pgstore.DefaultSchema)
	if err != nil {
		return err
	}
	_, err = m.Up(ctx)
	return err
}

func newDatabase(t *testing.T) *database {
	t.Helper()
	return openDatabase(t, postgres.DatabaseFrom(t, "migrated", migrate))
}

// newServer starts a server for one test that stops or freezes it.
func newServer(t *testing.T) (*pgdev.Server, *database) {
	t.Helper()
	server := pgtest.Server(t, pgdev.Config{})
	name, err := server.Cluster().CreateFrom(t.Context(), "migrated", migrate)
	if err != nil {
		t.Fatal(err)
	}
	return server, openDatabase(t, server.URL(name))
}

func openDatabase(t *testing.T, url string) *database {
	t.Helper()
	pool, err := pgxpool.New(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return &database{url, pool}
}

// count returns what a query counts; a database that is away counts as -1.
func (d *database) count(ctx context.Context, query string) int {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	n := -1
	if err := d.pool.QueryRow(ctx, query).Scan(&n); err != nil {
		return -1
	}
	return n
}

func (d *database) exec(t *testing.T, sql string) {
	t.Helper()
	if _, err := d.pool.Exec(t.Context(), sql); err != nil {
		t.Fatal(err)
	}
}

const (
	everything = `select (select count(*) from outbox.message) + (select count(*) from outbox.waiting) +
		(select count(*) from outbox.claim)`
	listed = `select coalesce(sum(cardinality(seqs)), 0) from outbox.claim`
	dead   = `select count(*) from outbox.dead`
)

// until polls a condition; the test fails when it does not come true.
func until(t *testing.T, patience time.Duration, what string, condition func() bool) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(patience); !condition(); <-tick.C {
		if time.Now().After(deadline) {
			t.Fatalf("waited %v until %s", patience, what)
		}
	}
}

// drained waits until nothing is left to deliver.
func (d *database) drained(t *testing.T, patience time.Duration) {
	t.Helper()
	until(t, patience, "everything was delivered", func() bool { return d.count(t.Context(), everything) == 0 })
}
