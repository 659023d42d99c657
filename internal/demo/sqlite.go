package demo

import (
	"context"
	"database/sql"
	_ "embed"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"

	_ "modernc.org/sqlite" // the driver sqlite

	"github.com/outboxrelay/outbox"
	"github.com/outboxrelay/outbox/internal/devservices"
	"github.com/outboxrelay/outbox/sqlitestore"
)

var (
	//go:embed queries/sqlite_create_orders.sql
	sqliteCreateOrdersSQL string
	//go:embed queries/sqlite_insert_order.sql
	sqliteInsertOrderSQL string
	//go:embed queries/sqlite_hold_settling.sql
	sqliteHoldSettlingSQL string
	//go:embed queries/sqlite_release_settling.sql
	sqliteReleaseSettlingSQL string
)

// sqlite is a private file, in a folder that goes with this process.
type sqlite struct {
	path  string
	db    *sql.DB
	store *sqlitestore.Store
}

var _ database = (*sqlite)(nil)

const sqliteKind = "SQLite"

// openSQLite makes the file; onClose is told what ends it.
func openSQLite(ctx context.Context, onClose func(func(context.Context) error)) (*sqlite, error) {
	folder, err := devservices.Supervise("sqlite", devservices.Account{}, ":")
	if err != nil {
		return nil, fmt.Errorf("make a folder: %w", err)
	}
	onClose(func(context.Context) error { return folder.Close() })
	s := &sqlite{path: filepath.Join(folder.Dir, "demo.db")}
	s.db, err = sql.Open("sqlite", "file:"+s.path+"?_pragma=busy_timeout(10000)&_pragma=synchronous(full)&_txlock=immediate")
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", s.path, err)
	}
	onClose(func(context.Context) error { return s.db.Close() })
	log := slog.New(slog.NewTextHandler(io.Discard, nil))
	if s.store, err = sqlitestore.New(s.db, &sqlitestore.Config{MaxPayload: outbox.MaxPayloadCeiling, Logger: log}); err != nil {
		return nil, err
	}
	if err := s.store.Migrate(ctx); err != nil {
		return nil, fmt.Errorf("make the outbox: %w", err)
	}
	return s, s.exec(ctx, sqliteCreateOrdersSQL)
}

func (s *sqlite) kind() string             { return sqliteKind }
func (s *sqlite) url() string              { return "sqlite:" + s.path }
func (s *sqlite) schema() string           { return "outbox" }
func (s *sqlite) outbox() outbox.Inspector { return s.store }

func (s *sqlite) exec(ctx context.Context, sql string) error {
	if _, err := s.db.ExecContext(ctx, sql); err != nil {
		return fmt.Errorf("file %s: %w", s.path, err)
	}
	return nil
}

func (s *sqlite) transaction(ctx context.Context, i int, m outbox.Message, outcome error) (id outbox.ID, err error) {
	err = s.store.InTx(ctx, func(tx *sql.Tx) error {
		if _, err := tx.ExecContext(ctx, sqliteInsertOrderSQL, i+1, m.Key); err != nil {
			return fmt.Errorf("insert order %d: %w", i+1, err)
		}
		receipts, err := s.store.Publish(ctx, tx, m)
		if err != nil {
			return fmt.Errorf("order %d: %w", i+1, err)
		}
		id = receipts[0].ID
		return outcome
	})
	return id, err
}

func (s *sqlite) holdSettling(ctx context.Context) (release func(context.Context) error, err error) {
	return func(ctx context.Context) error { return s.exec(ctx, sqliteReleaseSettlingSQL) }, s.exec(ctx, sqliteHoldSettlingSQL)
}

// endSessions has nothing to end: a transaction of a process ends with it.
func (s *sqlite) endSessions(context.Context, string) error { return nil }
