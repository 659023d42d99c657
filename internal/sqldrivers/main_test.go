package sqldrivers

import (
	"context"
	"database/sql"
	"os"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	_ "github.com/jackc/pgx/v5/stdlib"
	_ "github.com/lib/pq"

	"github.com/outboxrelay/outbox/internal/devservices/pgtest"
	"github.com/outboxrelay/outbox/pgstore"
)

var postgres pgtest.Shared

func TestMain(m *testing.M) { os.Exit(postgres.Run(m)) }

// driver is a driver in one of its modes of sending arguments.
type driver struct{ name, sqlName, parameter string }

var drivers = []driver{
	{"lib/pq", "postgres", ""},
	{"lib/pq binary", "postgres", "binary_parameters=yes"},
	{"pgx", "pgx", ""},
	{"pgx cache describe", "pgx", "default_query_exec_mode=cache_describe"},
	{"pgx describe exec", "pgx", "default_query_exec_mode=describe_exec"},
	{"pgx exec", "pgx", "default_query_exec_mode=exec"},
	{"pgx simple protocol", "pgx", "default_query_exec_mode=simple_protocol"},
}

func (d driver) open(t testing.TB, url string) *sql.DB {
	t.Helper()
	if d.parameter != "" {
		url += "&" + d.parameter
	}
	db, err := sql.Open(d.sqlName, url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

// eachDriver runs a test with every driver, each on a database of its own that has the outbox.
func eachDriver(t *testing.T, test func(t *testing.T, db *sql.DB, url string)) {
	t.Parallel()
	for _, d := range drivers {
		t.Run(strings.ReplaceAll(d.name, "/", ""), func(t *testing.T) {
			t.Parallel()
			url := postgres.DatabaseFrom(t, "migrated", migrate)
			test(t, d.open(t, url), url)
		})
	}
}

func migrate(ctx context.Context, url string) error {
	cfg, err := pgx.ParseConfig(url)
	if err != nil {
		return err
	}
	m, err := pgstore.NewMigrator(cfg, "")
	if err != nil {
		return err
	}
	_, err = m.Up(ctx)
	return err
}

func newPublisher(t testing.TB, cfg *pgstore.PublishConfig) *pgstore.Publisher {
	t.Helper()
	p, err := pgstore.NewPublisher(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func begin(t testing.TB, db *sql.DB) *sql.Tx {
	t.Helper()
	tx, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { tx.Rollback() })
	return tx
}

func count(t testing.TB, db *sql.DB, query string) (n int) {
	t.Helper()
	if err := db.QueryRowContext(t.Context(), query).Scan(&n); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return n
}
