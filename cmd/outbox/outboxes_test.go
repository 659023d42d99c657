package main

import (
	"database/sql"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/outboxrelay/outbox"
)

// testOutbox is an empty outbox in one of the databases, for what both have to do alike.
type testOutbox struct {
	t    *testing.T
	url  string
	flag string
	db   *sql.DB
	lite bool
}

// inBoth runs a test in PostgreSQL and in SQLite, beside others.
func inBoth(t *testing.T, test func(t *testing.T, o *testOutbox)) {
	t.Helper()
	t.Parallel()
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		o := &testOutbox{t: t, url: migrated(t)}
		cfg, err := pgx.ParseConfig(o.url)
		if err != nil {
			t.Fatal(err)
		}
		o.open(stdlib.OpenDB(*cfg))
		test(t, o)
	})
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		path := filepath.Join(t.TempDir(), "shop.db")
		o := &testOutbox{t: t, url: "sqlite:" + path, lite: true}
		call(t, nil, "migrate", "up", "--database-url="+o.url).want(t, exitDone)
		db, err := sql.Open("sqlite", "file:"+path+"?_pragma=busy_timeout(10000)&_txlock=immediate")
		if err != nil {
			t.Fatal(err)
		}
		o.open(db)
		test(t, o)
	})
}

func (o *testOutbox) open(db *sql.DB) {
	o.flag, o.db = "--database-url="+o.url, db
	o.t.Cleanup(func() {
		if err := db.Close(); err != nil {
			o.t.Error(err)
		}
	})
}

// words makes what is written for PostgreSQL mean the same tables of SQLite.
func (o *testOutbox) words(query string) string {
	if o.lite {
		query = strings.ReplaceAll(query, "outbox.", "outbox_")
	}
	return query
}

func (o *testOutbox) exec(query string, args ...any) {
	o.t.Helper()
	if _, err := o.db.ExecContext(o.t.Context(), o.words(query), args...); err != nil {
		o.t.Fatalf("%s: %v", query, err)
	}
}

func (o *testOutbox) count(query string) (n int) {
	o.t.Helper()
	if err := o.db.QueryRowContext(o.t.Context(), o.words(query)).Scan(&n); err != nil {
		o.t.Fatalf("%s: %v", query, err)
	}
	return n
}

// seq is a number that no message has.
func (o *testOutbox) seq() (seq int64) {
	o.t.Helper()
	query := "select nextval('outbox.seq')"
	if o.lite {
		query = "update outbox_sequence set seq = seq + 1 returning seq"
	}
	if err := o.db.QueryRowContext(o.t.Context(), query).Scan(&seq); err != nil {
		o.t.Fatal(err)
	}
	return seq
}

// ago is a time that was so many seconds ago.
func (o *testOutbox) ago(seconds int) string {
	if o.lite {
		return fmt.Sprintf("((select now from outbox_clock) - %d)", seconds*1000)
	}
	return fmt.Sprintf("(clock_timestamp() - interval '%d seconds')", seconds)
}

// archive inserts n messages of a topic that ended some days ago.
func (o *testOutbox) archive(topic, outcome string, n, days int) {
	o.t.Helper()
	at := o.ago(days * 24 * 3600)
	for i := range n {
		o.exec(`insert into outbox.archive (seq, generation, id, topic, key, payload, headers, published_at, attempts, destination, outcome, ended_at)
			values ($1, 0, $2, $3, $4, $5, '{"h": "v"}', `+at+`, 1, 'default', $6, `+at+`)`,
			o.seq(), outbox.NewID().String(), topic, fmt.Sprint("k", i+1), fmt.Appendf(nil, `{"n":%d}`, i+1), outcome)
	}
}

// dead inserts n dead messages of a topic, each with a key of its own.
func (o *testOutbox) dead(topic string, n int) {
	o.t.Helper()
	for i := range n {
		o.exec(`insert into outbox.dead (seq, id, topic, key, payload, headers, published_at, attempts, error_class, last_error, died_at)
			values ($1, $2, $3, $4, $5, '{}', `+o.ago(7*3600)+`, 10, 'timeout', 'no answer within 30s', `+o.ago(6*3600+150)+`)`,
			o.seq(), outbox.NewID().String(), topic, fmt.Sprint("k", i+1), []byte{})
	}
}

// ready inserts a message that nobody has claimed.
func (o *testOutbox) ready(id, topic string, payload []byte) {
	o.t.Helper()
	o.exec("insert into outbox.message (seq, id, topic, payload, published_at) values ($1, $2, $3, $4, "+o.ago(0)+")", o.seq(), id, topic, payload)
}

// operations are those that ops lists.
func (o *testOutbox) operations() []operationJSON {
	o.t.Helper()
	return decode[struct{ Operations []operationJSON }](o.t, call(o.t, nil, "ops", "--json", o.flag).want(o.t, exitDone)).Operations
}
