package schedule

import (
	"context"
	"database/sql"
	"errors"
	"log/slog"
	"path/filepath"
	"sync"
	"testing"

	_ "modernc.org/sqlite"
	"pgregory.net/rapid"

	"github.com/outboxrelay/outbox"
	"github.com/outboxrelay/outbox/internal/history"
	"github.com/outboxrelay/outbox/sqlitestore"
)

// inSQLite is an outbox in a file of its own.
type inSQLite struct {
	path  string
	db    *sql.DB            // the application's
	store *sqlitestore.Store // the application's and the operator's
}

func newInSQLite(t *testing.T) *inSQLite {
	t.Helper()
	b := &inSQLite{path: filepath.Join(t.TempDir(), "outbox.db")}
	var err error
	if b.db, b.store, err = b.open(); err != nil {
		t.Fatal(err)
	}
	if err := b.store.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	return b
}

// open opens the file as another process would. The system does not crash here, so nothing waits for the disk.
func (b *inSQLite) open() (*sql.DB, *sqlitestore.Store, error) {
	db, err := sql.Open("sqlite", "file:"+b.path+"?_pragma=busy_timeout(10000)&_pragma=synchronous(off)&_txlock=immediate")
	if err != nil {
		return nil, nil, err
	}
	store, err := sqlitestore.New(db, &sqlitestore.Config{Logger: slog.New(slog.DiscardHandler)})
	return db, store, err
}

func (b *inSQLite) Open(context.Context) (outbox.Store, func(), error) {
	db, store, err := b.open()
	return store, func() { _ = db.Close() }, err
}

func (b *inSQLite) Begin(ctx context.Context) (Tx, error) {
	tx, err := b.db.BeginTx(ctx, nil)
	return sqliteTx{tx, b.store}, err
}

func (b *inSQLite) Left(ctx context.Context) (n int, err error) {
	err = b.db.QueryRowContext(ctx, "select (select count(*) from outbox_message) + (select count(*) from outbox_waiting)").Scan(&n)
	return n, err
}

func (b *inSQLite) Operator() outbox.Operator { return b.store }

type sqliteTx struct {
	tx    *sql.Tx
	store *sqlitestore.Store
}

func (tx sqliteTx) Publish(ctx context.Context, ms ...outbox.Message) ([]outbox.Receipt, error) {
	return tx.store.Publish(ctx, tx.tx, ms...)
}

func (tx sqliteTx) Commit(context.Context) error   { return tx.tx.Commit() }
func (tx sqliteTx) Rollback(context.Context) error { return tx.tx.Rollback() }

// TestSchedulesInSQLite: whatever the schedule, no promise is broken on SQLite.
func TestSchedulesInSQLite(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for leases")
	}
	t.Parallel()
	var all tally
	rapid.Check(t, func(rt *rapid.T) {
		plans := rapid.SliceOfN(Plans(Limits{Steps: 16}), 3, 3).Draw(rt, "plans")
		reports, errs := make([]history.Report, len(plans)), make([]error, len(plans))
		var wg sync.WaitGroup
		for i, plan := range plans {
			box := newInSQLite(t)
			wg.Go(func() {
				reports[i], errs[i] = Play(t.Context(), box, plan)
				errs[i] = errors.Join(errs[i], box.db.Close())
			})
		}
		wg.Wait()
		for i := range plans {
			all.add(reports[i].Counts)
			if err := errors.Join(errs[i], reports[i].Err()); err != nil {
				rt.Errorf("plan %d: %v", i, err)
			}
		}
	})
	all.check(t)
}
