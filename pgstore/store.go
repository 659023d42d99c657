// Package pgstore keeps the outbox in PostgreSQL 14 or later: a Publisher writes messages in the caller's
// transaction, a Store also hands them to relays.
//
// How messages move, and why, is told in docs/protocol.md; the SQL is in queries and migrations.
package pgstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outboxrelay/outbox"
)

// Config configures a Store. The zero value means the defaults.
type Config struct {
	// Schema holds the outbox. Default "outbox".
	Schema string
	// Migrate is what a relay does about the schema when it starts. Publishing never migrates.
	Migrate MigrateMode
	// Engine is how a relay finds new messages. EngineWAL needs wal_level logical and a role that may replicate; without
	// them the relay says so and polls.
	Engine Engine
	// Notify is how publishing wakes relays. With NotifyOff the relay does not listen either and is complete
	// behind a pooler in transaction mode.
	Notify NotifyMode
	// ListenURL is where the listening and the streaming connection go, when the pool's own way leads through a pooler.
	ListenURL string
	// BeforeListen is called before each connection to ListenURL with what is about to be used, which it may
	// change: a password that is read anew. For all other connections that is BeforeConnect of the pool.
	BeforeListen func(context.Context, *pgx.ConnConfig) error
	// MaxPayload is the largest payload in bytes. Default 1 MiB, at most 64 MiB.
	MaxPayload int
	// LockKeys is that of PublishConfig.
	LockKeys bool
	// Hooks observe publishing; those of a relay are in outbox.Config.
	Hooks outbox.Hooks
	// SettleSync is the durability of settling.
	SettleSync SettleSync
	// KeepDelivered is for how long messages are kept in the archive after they have ended: delivered, dropped, expired
	// or discarded. Default 0, not at all; 1 min and more, or outbox.KeepForever. With 0 a relay leaves an archive
	// that is there as it is.
	KeepDelivered time.Duration
	// Archive says how they are kept.
	Archive Archive
	// PartitionInterval is how often a relay looks whether the archive has its partitions ahead, beside its start.
	// Default 5 min, 1 min to 1 day.
	PartitionInterval time.Duration
	// HorizonPatience is how long a transaction may keep vacuum from removing what relays have delivered before Status tells
	// of it. Default 5 min, 1 s to 30 days.
	HorizonPatience time.Duration
	// Logger is told of changes of the store's state. Default slog.Default.
	Logger *slog.Logger
}

// MigrateMode is what a relay does about the schema when it starts.
type MigrateMode string

const (
	// MigrateAuto applies missing migrations.
	MigrateAuto MigrateMode = ""
	// MigrateCheck refuses to run on a schema that is missing, older or too new.
	MigrateCheck MigrateMode = "check"
	// MigrateOff does not look.
	MigrateOff MigrateMode = "off"
)

// SettleSync is the durability of settling.
type SettleSync string

const (
	// SettleSyncOn commits settlements as the database is configured.
	SettleSyncOn SettleSync = ""
	// SettleSyncOff commits them asynchronously: a crash of the database repeats the deliveries of its last
	// moments and loses nothing.
	SettleSyncOff SettleSync = "off"
)

// Store is an outbox.Store in PostgreSQL, and a Publisher. It is safe for concurrent use.
type Store struct {
	*Publisher
	pool        *pgxpool.Pool
	owned       bool
	cfg         Config
	sql         *statements
	settleTxSQL string // for callers' transactions
	log         *slog.Logger
	signal      *signal
	stream      *stream
	waker       *waker
	upkeep      upkeep
	clock       clock
	connections atomic.Int64 // that claims have used
	within      sync.Map     // *pgx.Conn of each InTx under way: *atomic.Bool, whether it has published

	mu     sync.Mutex
	relays map[outbox.ID]*relay

	lanesMade atomic.Uint64
}

var (
	_ outbox.Store    = (*Store)(nil)
	_ outbox.Preparer = (*Store)(nil)
	_ outbox.Listener = (*Store)(nil)
)

// Open connects to a database and returns a Store that owns its pool; Close it. The pool has two connections
// and the store opens two more for itself, one for heartbeats and one to listen.
//
// Behind PgBouncer in transaction mode, add default_query_exec_mode=exec to the URL, unless it is version 1.21 or
// later with max_prepared_statements, and set Config.ListenURL to a direct connection or Config.Notify to NotifyOff.
func Open(ctx context.Context, url string, cfg *Config) (*Store, error) {
	poolCfg, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, fmt.Errorf("parse database URL: %w", err)
	}
	poolCfg.MaxConns = 2
	pool, err := pgxpool.NewWithConfig(ctx, poolCfg)
	if err != nil {
		return nil, fmt.Errorf("make connection pool: %w", err)
	}
	store, err := New(pool, cfg)
	if err != nil {
		pool.Close()
		return nil, err
	}
	store.owned = true
	return store, nil
}

// New returns a Store on the caller's pool. It does no I/O. Heartbeat and listener connect by themselves, with
// the pool's settings.
func New(pool *pgxpool.Pool, cfg *Config) (*Store, error) {
	c := Config{}
	if cfg != nil {
		c = *cfg
	}
	publisher, err := NewPublisher(&PublishConfig{Schema: c.Schema, MaxPayload: c.MaxPayload, Notify: c.Notify, LockKeys: c.LockKeys, Hooks: c.Hooks})
	if err := errors.Join(err, c.check()); err != nil {
		return nil, err
	}
	if c.Schema == "" {
		c.Schema = DefaultSchema
	}
	c.PartitionInterval = cmp.Or(c.PartitionInterval, DefaultPartitionInterval)
	c.HorizonPatience = cmp.Or(c.HorizonPatience, DefaultHorizonPatience)
	c.Archive.Granularity = cmp.Or(c.Archive.Granularity, DefaultGranularity)
	sql, err := newStatements(c.Schema)
	if err != nil {
		return nil, err
	}
	log := c.Logger
	if log == nil {
		log = slog.Default()
	}
	s := &Store{Publisher: publisher, pool: pool, cfg: c, sql: sql, settleTxSQL: render(uncommented(settleTxSQL), c.Schema), log: log, signal: newSignal(),
		relays: map[outbox.ID]*relay{}}
	s.stream = &stream{store: s, turn: make(chan struct{}, 1)}
	s.waker = newWaker(s.wakeRelays, log)
	return s, nil
}

func (c *Config) check() error {
	var errs []error
	if c.Migrate != MigrateAuto && c.Migrate != MigrateCheck && c.Migrate != MigrateOff {
		errs = append(errs, refuse("Migrate", string(c.Migrate), `MigrateAuto, MigrateCheck or MigrateOff`))
	}
	if c.SettleSync != SettleSyncOn && c.SettleSync != SettleSyncOff {
		errs = append(errs, refuse("SettleSync", string(c.SettleSync), `SettleSyncOn or SettleSyncOff`))
	}
	if c.Engine != EnginePoll && c.Engine != EngineWAL {
		errs = append(errs, refuse("Engine", string(c.Engine), `EnginePoll or EngineWAL`))
	}
	if c.ListenURL != "" {
		if _, err := pgx.ParseConfig(c.ListenURL); err != nil {
			errs = append(errs, refuse("ListenURL", "(not shown)", "a PostgreSQL URL or connection string"))
		}
	}
	if c.HorizonPatience != 0 && (c.HorizonPatience < minHorizonPatience || c.HorizonPatience > maxHorizonPatience) {
		errs = append(errs, refuse("HorizonPatience", c.HorizonPatience.String(), fmt.Sprintf("%v to %v, or zero for the default", minHorizonPatience, maxHorizonPatience)))
	}
	return errors.Join(append(errs, c.checkArchive())...)
}

// Close notifies relays of what was published and not told yet, closes the store's own connections, and the pool if
// Open made it. Relays must have stopped. Publishing goes on to work, and notifies in each transaction from then on.
func (s *Store) Close() {
	s.waker.close()
	s.mu.Lock()
	relays := s.relays
	s.relays = map[outbox.ID]*relay{}
	s.mu.Unlock()
	for _, r := range relays {
		r.disconnect()
	}
	if s.owned {
		s.pool.Close()
	}
}

// connect makes a connection beside the pool, in the pool's way.
func (s *Store) connect(ctx context.Context) (*pgx.Conn, error) {
	cfg := s.pool.Config()
	return connectWith(ctx, cfg.ConnConfig, cfg.BeforeConnect)
}

func connectWith(ctx context.Context, cfg *pgx.ConnConfig, before func(context.Context, *pgx.ConnConfig) error) (*pgx.Conn, error) {
	if before != nil {
		if err := before(ctx, cfg); err != nil {
			return nil, err
		}
	}
	conn, err := pgx.ConnectConfig(ctx, cfg)
	return conn, explainConnect(err)
}

// run executes one exchange on a connection of the pool.
func (s *Store) run(ctx context.Context, groups ...[]call) []error {
	return s.runWith(ctx, func(*pgx.Conn) [][]call { return groups })
}

// runWith is run for calls that depend on the connection.
func (s *Store) runWith(ctx context.Context, groups func(*pgx.Conn) [][]call) []error {
	conn, err := s.pool.Acquire(ctx)
	if err != nil {
		return []error{fmt.Errorf("connect: %w", explainConnect(err))}
	}
	defer conn.Release()
	errs := exchange(ctx, conn.Conn(), groups(conn.Conn())...)
	if wrongServer(errs) {
		s.pool.Reset()
	}
	return errs
}

// wrongServer reports whether the server shuts down or has become one that only reads, as after a failover: the
// pool's other connections lead there too.
func wrongServer(errs []error) bool {
	state, _ := sqlError(errors.Join(errs...))
	return state == stateReadOnly || state == stateStandby || strings.HasPrefix(state, "57P0")
}
