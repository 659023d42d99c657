package bench

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outboxrelay/outbox"
	"github.com/outboxrelay/outbox/pgstore"
)

var (
	//go:embed queries/empty.sql
	emptySQL string
	//go:embed queries/backlog.sql
	backlogSQL string
	//go:embed queries/head.sql
	headSQL string
	//go:embed queries/followers.sql
	followersSQL string
	//go:embed queries/left.sql
	leftSQL string
	//go:embed queries/claims.sql
	claimsSQL string
	//go:embed queries/insert.sql
	insertSQL string
	//go:embed queries/page.sql
	pageSQL string
	//go:embed queries/delete.sql
	deleteSQL string
	//go:embed queries/lock_page.sql
	lockPageSQL string
)

// Database is where an outbox is. Its methods are not safe for concurrent use, except Pool.
type Database struct {
	config *pgxpool.Config
	schema string
	conn   *pgx.Conn // for set-up and counters, never while something is measured
}

// Connect makes a Database of an outbox that is there; Close it.
func Connect(ctx context.Context, cfg *pgxpool.Config, schema string) (*Database, error) {
	conn, err := pgx.ConnectConfig(ctx, cfg.ConnConfig.Copy())
	if err != nil {
		return nil, fmt.Errorf("connect: %w", err)
	}
	return &Database{cfg, schema, conn}, nil
}

// Close disconnects.
func (db *Database) Close(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	return db.conn.Close(ctx)
}

// Conn is the connection for what is not measured.
func (db *Database) Conn() *pgx.Conn { return db.conn }

// sql puts the schema's name into a statement.
func (db *Database) sql(text string) string {
	return strings.ReplaceAll(text, "outbox.", db.schema+".")
}

// Pool connects as an application does, counted by w.
func (db *Database) Pool(ctx context.Context, conns int32, w *Wire) (*pgxpool.Pool, error) {
	cfg := db.config.Copy()
	cfg.MaxConns = conns
	cfg.ConnConfig.DialFunc = w.dial
	return pgxpool.NewWithConfig(ctx, cfg)
}

// Backlog is a number of messages, message n with number n in the first bytes of its payload and, if there are keys,
// key n modulo keys; their order of seq is that of n. Before them lie Front messages that are not to be delivered.
type Backlog struct {
	Rows, Keys int
	Payload    int // bytes; default 512
	Front      int // messages that the drain must leave where they are
	Blocked    bool
	Among      bool // one after each message of the backlog, instead of before all of them
}

// Stay is how many messages are there after the backlog is drained.
func (l Backlog) Stay() int64 {
	if l.Blocked && l.Front > 0 {
		return int64(l.Front) + 1
	}
	return int64(l.Front)
}

// What is in front: followers of a head that waits, with a key of their own, or a topic that nobody handles.
const (
	unhandledTopic = "unhandled.topic"
	blockedKey     = "blocked"
)

func (l Backlog) front() (topic, key string) {
	if l.Blocked {
		return Topic, blockedKey
	}
	return unhandledTopic, ""
}

// Fill adds a backlog to an empty outbox.
func (db *Database) Fill(ctx context.Context, l Backlog) error {
	if l.Blocked {
		if _, err := db.conn.Exec(ctx, db.sql(headSQL), Topic, blockedKey); err != nil {
			return fmt.Errorf("insert the head of the blocked key: %w", err)
		}
	}
	topic, key := l.front()
	if l.Front > 0 && !l.Among {
		if _, err := db.conn.Exec(ctx, db.sql(followersSQL), l.Front, topic, key); err != nil {
			return fmt.Errorf("fill what is in front: %w", err)
		}
	}
	among := 0
	if l.Among {
		among = l.Front
	}
	payload := l.Payload
	if payload == 0 {
		payload = payloadBytes
	}
	if _, err := db.conn.Exec(ctx, db.sql(backlogSQL), l.Rows, l.Keys, payload, among, topic, key, Topic); err != nil {
		return fmt.Errorf("fill the outbox: %w", err)
	}
	return db.Exec(ctx, db.sql("vacuum (analyze) outbox.message"))
}

// Truncate empties the outbox, which nobody may be using.
func (db *Database) Truncate(ctx context.Context) error { return db.Exec(ctx, db.sql(emptySQL)) }

// Exec runs statements without parameters.
func (db *Database) Exec(ctx context.Context, sql string) error {
	if _, err := db.conn.Exec(ctx, sql, pgx.QueryExecModeSimpleProtocol); err != nil {
		return fmt.Errorf("%.60s: %w", strings.Join(strings.Fields(sql), " "), err)
	}
	return nil
}

// Left counts the messages in the outbox, in any state, beyond those that stay, and if there are none the claims: an
// empty outbox must have an empty ledger.
func (db *Database) Left(ctx context.Context, stay int64) (n int64, err error) {
	if err := db.conn.QueryRow(ctx, db.sql(leftSQL)).Scan(&n); err != nil {
		return 0, fmt.Errorf("count what is left: %w", err)
	}
	if n -= stay; n != 0 {
		return n, nil
	}
	if err := db.conn.QueryRow(ctx, db.sql(claimsSQL)).Scan(&n); err != nil {
		return 0, fmt.Errorf("count claims: %w", err)
	}
	return n, nil
}

// OpenStore opens a store on a pool of its own.
func (db *Database) OpenStore(ctx context.Context, w *Wire, cfg pgstore.Config) (*pgstore.Store, func(), error) {
	cfg.Schema, cfg.Migrate, cfg.Logger = db.schema, pgstore.MigrateOff, warnings()
	pool, err := db.Pool(ctx, storeConns, w)
	if err != nil {
		return nil, nil, err
	}
	store, err := pgstore.New(pool, &cfg)
	if err != nil {
		pool.Close()
		return nil, nil, err
	}
	return store, func() { store.Close(); pool.Close() }, nil
}

// Insert publishes as a hand-written program does: by a bare INSERT of the same row.
func (db *Database) Insert() PublishFunc {
	sql := db.sql(insertSQL)
	return func(ctx context.Context, tx pgx.Tx, payload []byte) error {
		_, err := tx.Exec(ctx, sql, outbox.NewID(), Topic, "", payload, headers)
		return err
	}
}

// errAll joins what independent ends return.
func errAll(fs ...func() error) error {
	var errs []error
	for _, f := range fs {
		errs = append(errs, f())
	}
	return errors.Join(errs...)
}
