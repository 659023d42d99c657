package sqldrivers

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outboxrelay/outbox"
	"github.com/outboxrelay/outbox/internal/devservices/pgdev"
	"github.com/outboxrelay/outbox/internal/devservices/pgtest"
	"github.com/outboxrelay/outbox/pgstore"
)

// orm stands for what an ORM hands out: a transaction behind a type of its own.
type orm struct{ tx *sql.Tx }

func (o orm) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	return o.tx.ExecContext(ctx, query, args...)
}

func (o orm) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	return o.tx.QueryContext(ctx, query, args...)
}

// messages cover every field, texts that a wrong encoding would change, and payloads of all bytes and of none.
func messages() []outbox.Message {
	all := make([]byte, 256)
	for i := range all {
		all[i] = byte(i)
	}
	at := time.Date(2100, 1, 2, 3, 4, 5, 678901000, time.FixedZone("", 3600))
	ms := []outbox.Message{
		{Topic: "t"}, {Topic: "t", Payload: all}, {Topic: "t", Payload: []byte{0}},
		{Topic: "t", ContentType: "a/b", MaxAttempts: 3}, {Topic: "t", MaxAttempts: outbox.Unlimited, BrokerTTL: time.Second},
		{Topic: "t", ExpiresAt: at}, {Topic: "t", Payload: bytes.Repeat([]byte{'\\'}, 100_000)},
	}
	for i, text := range []string{`NULL`, ` `, `"`, `\`, `'`, `{}`, `{"a","b"}`, `a,b`, `$1`, `?`, `\x41`, "日本", "\U0001F600"} {
		m := outbox.Message{Topic: "t", Key: text, Payload: []byte(text), Headers: map[string]string{"h": text}}
		ms = append(ms, m)
		m.DedupKey = text + fmt.Sprint(i)
		ms = append(ms, m)
		m.DedupKey, m.DeliverAt = "", at
		ms = append(ms, m)
		m.DeliverAt, m.ID = time.Time{}, outbox.ID{0x11, 0x22, 15: byte(i)}
		ms = append(ms, m)
	}
	return ms
}

const (
	// rows are all rows in publish order, without what differs between two calls: numbers, made ids, clocks.
	rows = `select md5(string_agg(r::text, '|' order by r.seq)) from (
		select seq - min(seq) over () as seq, case when id::text like '1122%' then id end as id, topic, key, payload, headers,
			dedup_key, max_attempts, broker_ttl, expires_at, available_at
		from (select seq, id, topic, key, payload, headers, dedup_key, max_attempts, broker_ttl, expires_at, null::timestamptz as available_at from outbox.message
			union all select seq, id, topic, key, payload, headers, dedup_key, max_attempts, broker_ttl, expires_at, available_at from outbox.waiting) m) r`
	empty = "truncate outbox.message, outbox.waiting, outbox.dedup"
)

// withPgx publishes the messages by the pgx publisher, whose rows package pgstore tests one by one, and returns the
// digest of the rows.
func withPgx(t *testing.T, url string, ms []outbox.Message) (digest string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	err = pgx.BeginFunc(t.Context(), conn, func(tx pgx.Tx) error {
		_, err := newPublisher(t, nil).Publish(t.Context(), tx, ms...)
		return err
	})
	if err == nil {
		err = conn.QueryRow(t.Context(), rows).Scan(&digest)
	}
	if err == nil {
		_, err = conn.Exec(t.Context(), empty)
	}
	if err != nil {
		t.Fatal(err)
	}
	return digest
}

// TestSameRows: the same messages by every driver, as a transaction and behind an ORM's type, in one call and one by
// one, are the same rows.
func TestSameRows(t *testing.T) {
	eachDriver(t, func(t *testing.T, db *sql.DB, url string) {
		ms := messages()
		want := withPgx(t, url, ms)
		p, locking := newPublisher(t, nil), newPublisher(t, &pgstore.PublishConfig{LockKeys: true})
		ways := map[string]func(*sql.Tx, ...outbox.Message) ([]outbox.Receipt, error){
			"tx": func(tx *sql.Tx, ms ...outbox.Message) ([]outbox.Receipt, error) {
				return p.PublishSQL(t.Context(), tx, ms...)
			},
			"orm": func(tx *sql.Tx, ms ...outbox.Message) ([]outbox.Receipt, error) {
				return p.PublishQuerier(t.Context(), orm{tx}, ms...)
			},
			"keys locked": func(tx *sql.Tx, ms ...outbox.Message) ([]outbox.Receipt, error) {
				return locking.PublishSQL(t.Context(), tx, ms...)
			},
			"one by one": func(tx *sql.Tx, ms ...outbox.Message) (receipts []outbox.Receipt, err error) {
				for i := 0; i < len(ms) && err == nil; i++ {
					var one []outbox.Receipt
					one, err = p.PublishSQL(t.Context(), tx, ms[i])
					receipts = append(receipts, one...)
				}
				return receipts, err
			},
		}
		for name, way := range ways {
			tx := begin(t, db)
			receipts, err := way(tx, ms...)
			if err != nil || len(receipts) != len(ms) {
				t.Fatalf("%s: %d receipts, %v", name, len(receipts), err)
			}
			if err := tx.Commit(); err != nil {
				t.Fatal(err)
			}
			checkReceipts(t, db, receipts)
			var got string
			if err := db.QueryRowContext(t.Context(), rows).Scan(&got); err != nil || got != want {
				t.Errorf("%s: other rows than by pgx, %v", name, err)
			}
			if _, err := db.ExecContext(t.Context(), empty); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// checkReceipts: they name the rows, in order.
func checkReceipts(t *testing.T, db *sql.DB, receipts []outbox.Receipt) {
	t.Helper()
	var want strings.Builder
	for _, r := range receipts {
		want.WriteString(r.ID.String())
	}
	var got string
	err := db.QueryRowContext(t.Context(), `select string_agg(id::text, '' order by seq)
		from (select id, seq from outbox.message union all select id, seq from outbox.waiting) m`).Scan(&got)
	if err != nil || got != want.String() {
		t.Errorf("the receipts are not those of the rows, %v", err)
	}
}

func TestDuplicates(t *testing.T) {
	eachDriver(t, func(t *testing.T, db *sql.DB, _ string) {
		p := newPublisher(t, nil)
		m := outbox.Message{Topic: "t", DedupKey: "d"}
		own := outbox.Message{Topic: "t", ID: outbox.NewID()}
		tx := begin(t, db)
		receipts, err := p.PublishSQL(t.Context(), tx, m, own, m)
		if err != nil || receipts[0].Duplicate || receipts[1].ID != own.ID || !receipts[2].Duplicate || !receipts[2].ID.IsZero() {
			t.Fatalf("%+v, %v", receipts, err)
		}
		if _, err := p.PublishQuerier(t.Context(), orm{tx}, own); !errors.Is(err, outbox.ErrDuplicateID) {
			t.Errorf("%v", err)
		}
	})
}

// TestUniqueViolationOfSeq: a sequence that is behind its table is not a duplicate id.
func TestUniqueViolationOfSeq(t *testing.T) {
	eachDriver(t, func(t *testing.T, db *sql.DB, _ string) {
		tx := begin(t, db)
		p := newPublisher(t, nil)
		if _, err := p.PublishSQL(t.Context(), tx, outbox.Message{Topic: "t"}); err != nil {
			t.Fatal(err)
		}
		if _, err := tx.ExecContext(t.Context(), "select setval('outbox.seq', 1, false)"); err != nil {
			t.Fatal(err)
		}
		_, err := p.PublishSQL(t.Context(), tx, outbox.Message{Topic: "t", ID: outbox.NewID()})
		if err == nil || errors.Is(err, outbox.ErrDuplicateID) {
			t.Errorf("%v", err)
		}
	})
}

// TestNoTransaction: what is not a transaction is refused, and nothing is written.
func TestNoTransaction(t *testing.T) {
	eachDriver(t, func(t *testing.T, db *sql.DB, _ string) {
		p := newPublisher(t, nil)
		conn, err := db.Conn(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		for _, q := range []pgstore.Querier{db, conn, nil} {
			if _, err := p.PublishQuerier(t.Context(), q, outbox.Message{Topic: "t"}); !errors.Is(err, outbox.ErrNoTransaction) {
				t.Errorf("%T: %v", q, err)
			}
		}
		if _, err := p.PublishSQL(t.Context(), nil, outbox.Message{Topic: "t"}); !errors.Is(err, outbox.ErrNoTransaction) {
			t.Errorf("nil: %v", err)
		}
		if n := count(t, db, "select count(*) from outbox.message"); n != 0 {
			t.Errorf("%d rows", n)
		}
	})
}

func TestFinishedTransaction(t *testing.T) {
	eachDriver(t, func(t *testing.T, db *sql.DB, _ string) {
		p := newPublisher(t, nil)
		tx := begin(t, db)
		if err := tx.Commit(); err != nil {
			t.Fatal(err)
		}
		for _, m := range []outbox.Message{{Topic: "t"}, {Topic: "t", DedupKey: "d"}} {
			if _, err := p.PublishSQL(t.Context(), tx, m); !errors.Is(err, sql.ErrTxDone) {
				t.Errorf("%v", err)
			}
			if _, err := p.PublishQuerier(t.Context(), orm{tx}, m); !errors.Is(err, sql.ErrTxDone) {
				t.Errorf("%v", err)
			}
		}
	})
}

func TestSchemaMissing(t *testing.T) {
	eachDriver(t, func(t *testing.T, db *sql.DB, _ string) {
		p := newPublisher(t, &pgstore.PublishConfig{Schema: "elsewhere"})
		for _, m := range []outbox.Message{{Topic: "t"}, {Topic: "t", DedupKey: "d"}} {
			if _, err := p.PublishSQL(t.Context(), begin(t, db), m); !errors.Is(err, outbox.ErrSchemaMissing) {
				t.Errorf("%v", err)
			}
			if _, err := p.PublishQuerier(t.Context(), orm{begin(t, db)}, m); !errors.Is(err, outbox.ErrSchemaMissing) {
				t.Errorf("%v", err)
			}
		}
	})
}

// TestRefusedBeforeSQL: the caller's transaction survives a refused value.
func TestRefusedBeforeSQL(t *testing.T) {
	eachDriver(t, func(t *testing.T, db *sql.DB, _ string) {
		p := newPublisher(t, nil)
		tx := begin(t, db)
		for _, key := range []string{strings.Repeat("k", 10_000), "a\x00b", "\xff"} {
			var refused *outbox.FieldError
			if _, err := p.PublishSQL(t.Context(), tx, outbox.Message{Topic: "t", Key: key}); !errors.As(err, &refused) || refused.Field != "Key" {
				t.Errorf("%v", err)
			}
		}
		if _, err := p.PublishSQL(t.Context(), tx, outbox.Message{Topic: "t", Key: "k"}); err != nil {
			t.Error(err)
		}
		if err := tx.Commit(); err != nil {
			t.Error(err)
		}
	})
}

func TestRollback(t *testing.T) {
	eachDriver(t, func(t *testing.T, db *sql.DB, _ string) {
		tx := begin(t, db)
		if _, err := newPublisher(t, nil).PublishSQL(t.Context(), tx, outbox.Message{Topic: "t", DedupKey: "d"}, outbox.Message{Topic: "t"}); err != nil {
			t.Fatal(err)
		}
		if err := tx.Rollback(); err != nil {
			t.Fatal(err)
		}
		if n := count(t, db, "select (select count(*) from outbox.message) + (select count(*) from outbox.dedup)"); n != 0 {
			t.Errorf("%d rows", n)
		}
	})
}

// TestDeadline: with a frozen database, publishing fails when its context ends. lib/pq is not here: it waits for the
// server's answer whatever its context says.
func TestDeadline(t *testing.T) {
	t.Parallel()
	server := pgtest.Server(t, pgdev.Config{})
	url := server.URL("postgres")
	if err := migrate(t.Context(), url); err != nil {
		t.Fatal(err)
	}
	for _, d := range drivers {
		if d.sqlName != "pgx" {
			continue
		}
		t.Run(d.name, func(t *testing.T) {
			tx := begin(t, d.open(t, url))
			if err := server.Pause(); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			defer cancel()
			start := time.Now()
			_, err := newPublisher(t, nil).PublishSQL(ctx, tx, outbox.Message{Topic: "t"})
			if took := time.Since(start); !errors.Is(err, context.DeadlineExceeded) || took > 10*time.Second {
				t.Errorf("after %s: %v", took, err)
			}
			if err := server.Resume(); err != nil {
				t.Fatal(err)
			}
		})
	}
}
