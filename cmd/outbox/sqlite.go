package main

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"os"
	"strings"

	_ "modernc.org/sqlite" // the driver sqlite

	"github.com/outboxrelay/outbox"
	"github.com/outboxrelay/outbox/pgstore"
	"github.com/outboxrelay/outbox/sqlitestore"
)

// outboxStore is an outbox of either kind.
type outboxStore interface {
	outbox.Store
	outbox.Inspector
	outbox.Archivist
	outbox.Catalog
}

const sqliteScheme = "sqlite:"

// sqliteFile is the path of the SQLite file that database.url names; empty: it names something else.
func (c *config) sqliteFile() (path string, err error) {
	if !c.database.isSet() {
		return "", nil
	}
	text, err := c.database.read()
	if err != nil || !strings.HasPrefix(text, sqliteScheme) {
		return "", err
	}
	if path = strings.TrimPrefix(text, sqliteScheme); path == "" || strings.HasPrefix(path, "//") || strings.HasPrefix(path, ":") {
		return "", &failure{exitUsage, fmt.Errorf("database.url %q%s: must be sqlite: and the path of a file, such as sqlite:shop.db", mask(text), c.origin("database.url"))}
	}
	return path, nil
}

// refuseSQLite is for what works with PostgreSQL only.
func (c *config) refuseSQLite() error {
	path, err := c.sqliteFile()
	if err != nil || path == "" {
		return err
	}
	return failf(exitUsage, "this works with PostgreSQL only; with a SQLite file there are all commands but bench, check, migrate print, partitions and wal")
}

// checkSQLite returns which settings are given that mean nothing with SQLite.
func (c *config) checkSQLite() (found problems) {
	path, err := c.sqliteFile()
	if err != nil || path == "" {
		return nil // told when it is opened
	}
	for _, key := range []string{"database.listen_url", "database.listen_url_file", "notify", "lock_keys", "settle_sync", "archive.granularity", "partition_interval", "horizon_patience"} {
		if g, ok := c.given[key]; ok {
			found = append(found, fmt.Sprintf("%s%s is for PostgreSQL, and database.url names a SQLite file", key, " ("+g.origin.text+")"))
		}
	}
	if c.store.Engine == pgstore.EngineWAL {
		found = append(found, fmt.Sprintf("engine%s: wal is for PostgreSQL, and database.url names a SQLite file", c.origin("engine")))
	}
	return found
}

// openSQLite opens the file, and makes it if that is asked for. Each commit waits for the disk.
func (c *config) openSQLite(path string, create bool, log *slog.Logger) (*sqlitestore.Store, *sql.DB, error) {
	if err := checkSQLiteFile(path, create); err != nil {
		return nil, nil, err
	}
	name := (&url.URL{Path: path}).EscapedPath()
	db, err := sql.Open("sqlite", "file:"+name+"?_pragma=busy_timeout(10000)&_pragma=synchronous(full)&_txlock=immediate")
	if err != nil {
		return nil, nil, fmt.Errorf("open %s: %w", path, err)
	}
	store, err := sqlitestore.New(db, &sqlitestore.Config{Prefix: cmp.Or(c.store.Schema, pgstore.DefaultSchema) + "_",
		Migrate: sqlitestore.MigrateMode(c.store.Migrate), MaxPayload: c.store.MaxPayload,
		KeepDelivered: c.store.KeepDelivered, OmitPayload: c.store.Archive.OmitPayload, Logger: log})
	if err != nil {
		return nil, nil, errors.Join(err, db.Close())
	}
	return store, db, nil
}

// checkSQLiteFile tells what SQLite would tell without the file's name, and later.
func checkSQLiteFile(path string, create bool) error {
	const magic = "SQLite format 3\x00"
	f, err := os.Open(path)
	switch {
	case create && errors.Is(err, os.ErrNotExist):
		return nil
	case errors.Is(err, os.ErrNotExist):
		return fmt.Errorf("%w; a relay or outbox migrate up makes it", err)
	case err != nil:
		return err
	}
	defer f.Close()
	head := make([]byte, len(magic))
	n, err := io.ReadFull(f, head)
	switch {
	case n == 0 && errors.Is(err, io.EOF): // an empty file is a new database
		return nil
	case err != nil && !errors.Is(err, io.ErrUnexpectedEOF):
		return fmt.Errorf("read: %w", err)
	case string(head[:n]) != magic:
		return failf(exitUsage, "%s is no SQLite database: database.url must name one, or a file that is not there yet", path)
	}
	return nil
}

// openOutbox makes the store of a relay or an inspection. A relay that makes the tables makes the file as well.
func (c *config) openOutbox(ctx context.Context, relays bool, log *slog.Logger) (store outboxStore, closeAll func(), err error) {
	path, err := c.sqliteFile()
	if err != nil {
		return nil, nil, err
	}
	if path == "" {
		pg, closeAll, err := c.openStore(ctx, log)
		return pg, closeAll, err
	}
	lite, db, err := c.openSQLite(path, relays && c.store.Migrate == pgstore.MigrateAuto, log)
	if err != nil {
		return nil, nil, err
	}
	return lite, func() {
		if err := db.Close(); err != nil {
			log.Error("close the SQLite file", "error", err)
		}
	}, nil
}

// openSQLitePublisher makes a publisher for a SQLite file.
func (c *config) openSQLitePublisher(path string) (p *publisher, closeAll func(), err error) {
	store, db, err := c.openSQLite(path, false, nil)
	if err != nil {
		return nil, nil, err
	}
	publish := func(ctx context.Context, ms ...outbox.Message) (receipts []outbox.Receipt, err error) {
		err = store.InTx(ctx, func(tx *sql.Tx) error {
			receipts, err = store.Publish(ctx, tx, ms...)
			return err
		})
		return receipts, err
	}
	return &publisher{publish, c.store.MaxPayload}, func() { _ = db.Close() }, nil // everything is committed
}

// sqliteMigrator is a migrator for a SQLite file.
type sqliteMigrator struct{ store *sqlitestore.Store }

func (m sqliteMigrator) List(ctx context.Context) (list []pgstore.Migration, err error) {
	all, err := m.store.Migrations(ctx)
	for _, step := range all {
		list = append(list, pgstore.Migration{Version: step.Version, Name: step.Name, AppliedAt: step.AppliedAt})
	}
	return list, err
}

func (m sqliteMigrator) Up(ctx context.Context) ([]pgstore.Migration, error) {
	list, err := m.List(ctx)
	if err != nil {
		return nil, err
	}
	return pending(list), m.store.Migrate(ctx)
}

func (m sqliteMigrator) Down(ctx context.Context, target int) error {
	if target != 0 {
		return failf(exitUsage, "--target %d: must be 0 with a SQLite file", target)
	}
	return m.store.MigrateDown(ctx)
}

func (m sqliteMigrator) Validate(ctx context.Context) error { return m.store.Validate(ctx) }
