// Package sqlitestore keeps the outbox in a SQLite file: for programs on one machine, tests and first steps. A Store
// publishes messages in the caller's transactions and hands them to relays, with the guarantees of every
// outbox.Store. It imports no driver: it works with the caller's *sql.DB, whose SQLite must be 3.43 or later.
//
// What the file and the connections need, what a crash leaves, and what is not there compared with PostgreSQL is told
// in docs/sqlite.md; the SQL is in queries and migrations.
package sqlitestore

import (
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"sync"
	"time"

	"github.com/outboxrelay/outbox"
)

// Config configures a Store. The zero value means the defaults.
type Config struct {
	// Prefix begins the names of the outbox's tables, so that one file can have several outboxes. Default "outbox_".
	Prefix string
	// Migrate is what a relay does about the tables when it starts. Publishing never migrates.
	Migrate MigrateMode
	// MaxPayload is the largest payload in bytes. Default 1 MiB, at most 64 MiB.
	MaxPayload int
	// DedupWindow keeps dedup keys and ids of the caller's taken for at least this long after publishing, even when the
	// message is gone. Default 0.
	DedupWindow time.Duration
	// KeepDelivered is how long messages are kept in the archive after they have ended: delivered, dropped, expired
	// or discarded. Default 0, not at all; 1 min and more, or outbox.KeepForever. With 0 a relay leaves an archive
	// that is there alone.
	KeepDelivered time.Duration
	// OmitPayload keeps them without their payload. They cannot be replayed.
	OmitPayload bool
	// BusyTimeout is how long a relay or an operator waits for other writers of the file. Default 10 s.
	BusyTimeout time.Duration
	// Logger is told of changes of the store's state. Default slog.Default.
	Logger *slog.Logger
}

// MigrateMode is what a relay does about the tables when it starts.
type MigrateMode string

const (
	// MigrateAuto applies missing migrations.
	MigrateAuto MigrateMode = ""
	// MigrateCheck refuses to run on tables that are missing, older or too new.
	MigrateCheck MigrateMode = "check"
	// MigrateOff does not look.
	MigrateOff MigrateMode = "off"
)

// Store is an outbox.Store in a SQLite file. It is safe for concurrent use.
type Store struct {
	db     *sql.DB
	cfg    Config
	sql    statements
	log    *slog.Logger
	signal *signal
	writer chan struct{} // SQLite has one writer; those of this Store take turns instead of polling for the lock

	upkeep upkeep
	file   file

	mu        sync.Mutex
	lanes     map[laneName]*lane
	sightings map[string]sighting // of relays whose lease lies too far ahead, by id
	latest    int64               // the time of the last heartbeat
}

var (
	_ outbox.Archivist = (*Store)(nil)
	_ outbox.Catalog   = (*Store)(nil)
	_ outbox.Inspector = (*Store)(nil)
	_ outbox.Store     = (*Store)(nil)
	_ outbox.Preparer  = (*Store)(nil)
	_ outbox.Listener  = (*Store)(nil)
)

// New returns a Store on the caller's database. It does no I/O. A connection is taken for each call and given back: a
// database with a single connection works as long as the caller's transactions are short.
//
// The error names every setting that is refused, each as a *outbox.FieldError.
func New(db *sql.DB, cfg *Config) (*Store, error) {
	var c Config
	if cfg != nil {
		c = *cfg
	}
	c = c.withDefaults()
	if err := c.check(); err != nil {
		return nil, err
	}
	return &Store{db: db, cfg: c, sql: newStatements(c.Prefix), log: c.Logger, signal: newSignal(),
		writer: make(chan struct{}, 1), lanes: map[laneName]*lane{}}, nil
}

func (c Config) withDefaults() Config {
	if c.Prefix == "" {
		c.Prefix = defaultPrefix
	}
	if c.MaxPayload == 0 {
		c.MaxPayload = outbox.DefaultMaxPayload
	}
	if c.BusyTimeout == 0 {
		c.BusyTimeout = 10 * time.Second
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	return c
}

func (c *Config) check() error {
	var errs []error
	if !validPrefix(c.Prefix) {
		errs = append(errs, refuse("Prefix", c.Prefix, prefixBound))
	}
	if c.Migrate != MigrateAuto && c.Migrate != MigrateCheck && c.Migrate != MigrateOff {
		errs = append(errs, refuse("Migrate", string(c.Migrate), "must be MigrateAuto, MigrateCheck or MigrateOff"))
	}
	if c.MaxPayload < 1 || c.MaxPayload > outbox.MaxPayloadCeiling {
		errs = append(errs, refuse("MaxPayload", strconv.Itoa(c.MaxPayload), "must be 1 to "+strconv.Itoa(outbox.MaxPayloadCeiling)+" bytes"))
	}
	if c.DedupWindow < 0 {
		errs = append(errs, refuse("DedupWindow", c.DedupWindow.String(), "must not be negative"))
	}
	if c.KeepDelivered != 0 && c.KeepDelivered < minKeep {
		errs = append(errs, refuse("KeepDelivered", c.KeepDelivered.String(), fmt.Sprintf("%v or more, KeepForever, or zero to keep nothing", minKeep)))
	}
	if c.BusyTimeout < 0 {
		errs = append(errs, refuse("BusyTimeout", c.BusyTimeout.String(), "must not be negative"))
	}
	return errors.Join(errs...)
}

// refuse makes the error for a value that is refused before anything is sent to the database.
func refuse(field, value, bound string) error {
	const readable = 80
	if len(value) > readable {
		value = value[:readable] + "…"
	}
	return &outbox.FieldError{Field: field, Value: value, Bound: bound}
}
