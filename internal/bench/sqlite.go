package bench

import (
	"context"
	"database/sql"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	_ "modernc.org/sqlite" // the driver sqlite

	"github.com/outboxrelay/outbox"
	"github.com/outboxrelay/outbox/pgstore"
	"github.com/outboxrelay/outbox/sqlitestore"
)

var (
	//go:embed queries/sqlite_backlog.sql
	sqliteBacklogSQL string
	//go:embed queries/sqlite_empty.sql
	sqliteEmptySQL string
	//go:embed queries/sqlite_left.sql
	sqliteLeftSQL string
)

// sqliteFile is an outbox in a SQLite file with synchronous=FULL. Close it.
type sqliteFile struct {
	dir string
	db  *sql.DB
}

var _ Backend = (*sqliteFile)(nil)

func openSQLite() (_ Backend, err error) {
	f := &sqliteFile{}
	if f.dir, err = os.MkdirTemp("", "outbox-bench-sqlite-"); err != nil {
		return nil, err
	}
	store, db, err := f.open()
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(f.dir))
	}
	f.db = db
	if err := store.Migrate(context.Background()); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

func (f *sqliteFile) open() (*sqlitestore.Store, *sql.DB, error) {
	db, err := sql.Open("sqlite", "file:"+filepath.Join(f.dir, "outbox.db")+"?_pragma=busy_timeout(10000)&_pragma=synchronous(full)&_txlock=immediate")
	if err != nil {
		return nil, nil, err
	}
	store, err := sqlitestore.New(db, &sqlitestore.Config{Migrate: sqlitestore.MigrateOff, Logger: warnings()})
	if err != nil {
		return nil, nil, errors.Join(err, db.Close())
	}
	return store, db, nil
}

// Close removes the file.
func (f *sqliteFile) Close() error { return errors.Join(f.db.Close(), os.RemoveAll(f.dir)) }

// Refill replaces all messages by a backlog.
func (f *sqliteFile) Refill(ctx context.Context, l Backlog) error {
	if l.Front > 0 {
		return fmt.Errorf("SQLite: there is no backlog with messages in front: %w", errors.ErrUnsupported)
	}
	payload := l.Payload
	if payload == 0 {
		payload = payloadBytes
	}
	if _, err := f.db.ExecContext(ctx, sqliteEmptySQL); err != nil {
		return fmt.Errorf("empty the outbox: %w", err)
	}
	if _, err := f.db.ExecContext(ctx, sqliteBacklogSQL, l.Rows, l.Keys, payload, Topic); err != nil {
		return fmt.Errorf("fill the outbox: %w", err)
	}
	_, err := f.db.ExecContext(ctx, "pragma wal_checkpoint(truncate)")
	return err
}

// Left counts messages and, if there are none, claims.
func (f *sqliteFile) Left(ctx context.Context, stay int64) (n int64, err error) {
	if err := f.db.QueryRowContext(ctx, sqliteLeftSQL).Scan(&n); err != nil {
		return 0, fmt.Errorf("count what is left: %w", err)
	}
	return n - stay, nil
}

// Stores opens one as a process of its own would. Nothing goes over a wire, and there are no notifications.
func (f *sqliteFile) Stores(context.Context, *Wire, pgstore.NotifyMode) (outbox.Store, func(), error) {
	store, db, err := f.open()
	if err != nil {
		return nil, nil, err
	}
	return store, func() { _ = db.Close() }, nil // all is committed
}
