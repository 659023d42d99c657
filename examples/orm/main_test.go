package orm

import (
	"context"
	"database/sql"
	_ "embed"
	"os"
	"testing"

	"entgo.io/ent/dialect"
	entsql "entgo.io/ent/dialect/sql"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	_ "github.com/jackc/pgx/v5/stdlib"
	_ "github.com/lib/pq"
	"github.com/uptrace/bun"
	"github.com/uptrace/bun/dialect/pgdialect"
	"github.com/uptrace/bun/driver/pgdriver"
	"go.uber.org/goleak"
	gormpostgres "gorm.io/driver/postgres"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"

	"github.com/outboxrelay/outbox/examples/orm/ent"
	"github.com/outboxrelay/outbox/internal/devservices/pgtest"
	"github.com/outboxrelay/outbox/pgstore"
)

var postgres pgtest.Shared

func TestMain(m *testing.M) {
	// GORM leaves a goroutine per *gorm.DB with PrepareStmt, which nothing ends.
	os.Exit(postgres.Run(m, goleak.IgnoreTopFunction("gorm.io/gorm/internal/lru.NewLRU[...].func1")))
}

//go:embed schema.sql
var schemaSQL string

// prepare makes the outbox and the application's tables with one customer, whose id is 1.
func prepare(ctx context.Context, url string) error {
	cfg, err := pgx.ParseConfig(url)
	if err != nil {
		return err
	}
	m, err := pgstore.NewMigrator(cfg, "")
	if err != nil {
		return err
	}
	if _, err := m.Up(ctx); err != nil {
		return err
	}
	conn, err := pgx.ConnectConfig(ctx, cfg)
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	_, err = conn.Exec(ctx, schemaSQL+"; insert into customers values (1)")
	return err
}

func newPublisher(t *testing.T) *pgstore.Publisher {
	t.Helper()
	p, err := pgstore.NewPublisher(nil)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func openPool(t *testing.T, url string) *pgxpool.Pool {
	t.Helper()
	pool, err := pgxpool.New(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pool
}

func openSQL(t *testing.T, driver, url string) *sql.DB {
	t.Helper()
	db, err := sql.Open(driver, url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

func openGORM(t *testing.T, url string, prepareStmt bool) *gorm.DB {
	t.Helper()
	db, err := gorm.Open(gormpostgres.New(gormpostgres.Config{Conn: openSQL(t, "pgx", url)}),
		&gorm.Config{PrepareStmt: prepareStmt, Logger: logger.Discard})
	if err != nil {
		t.Fatal(err)
	}
	return db
}

func openEnt(t *testing.T, url string) *ent.Client {
	t.Helper()
	return ent.NewClient(ent.Driver(entsql.OpenDB(dialect.Postgres, openSQL(t, "pgx", url))))
}

func openBun(t *testing.T, url string) *bun.DB {
	t.Helper()
	return bun.NewDB(openSQL(t, "pgx", url), pgdialect.New())
}

func openPgdriver(t *testing.T, url string) *bun.DB {
	t.Helper()
	db := bun.NewDB(sql.OpenDB(pgdriver.NewConnector(pgdriver.WithDSN(url))), pgdialect.New())
	t.Cleanup(func() { db.Close() })
	return db
}
