package pgstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"
	_ "github.com/jackc/pgx/v5/stdlib"

	"github.com/outboxrelay/outbox"
)

// TestPublishHooks: every way to publish goes through the hooks, which see what becomes of it and may add headers.
func TestPublishHooks(t *testing.T) {
	t.Parallel()
	url := migratedDatabase(t)
	type key struct{}
	var ends []string
	hooks := outbox.Hooks{
		PublishStart: func(ctx context.Context, ms []outbox.Message) context.Context {
			ms[0].Headers = map[string]string{"traceparent": "of the hook"}
			return context.WithValue(ctx, key{}, "started")
		},
		PublishEnd: func(ctx context.Context, rs []outbox.Receipt, err error) {
			var refused *outbox.FieldError
			ends = append(ends, fmt.Sprintf("%v %d %v", ctx.Value(key{}), len(rs), errors.As(err, &refused)))
		},
	}
	store, conn := newStore(t, url, &Config{Hooks: hooks}), connect(t, url)
	publisher, err := NewPublisher(&PublishConfig{Hooks: hooks})
	if err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open("pgx", url)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	ctx, m := t.Context(), outbox.Message{Topic: "a"}
	inTx := func(publish func(tx pgx.Tx) error) error { return pgx.BeginFunc(ctx, conn, publish) }
	inSQL := func(publish func(tx *sql.Tx) error) error {
		tx, err := db.Begin()
		if err != nil {
			return err
		}
		return errors.Join(publish(tx), tx.Commit())
	}
	for name, err := range map[string]error{
		"publisher":         inTx(func(tx pgx.Tx) error { _, err := publisher.Publish(ctx, tx, m, m); return err }),
		"publisher, sql":    inSQL(func(tx *sql.Tx) error { _, err := publisher.PublishSQL(ctx, tx, m, m); return err }),
		"publisher, ORM":    inSQL(func(tx *sql.Tx) error { _, err := publisher.PublishQuerier(ctx, tx, m, m); return err }),
		"store":             inTx(func(tx pgx.Tx) error { _, err := store.Publish(ctx, tx, m, m); return err }),
		"store, sql":        inSQL(func(tx *sql.Tx) error { _, err := store.PublishSQL(ctx, tx, m, m); return err }),
		"store, InTx":       store.InTx(ctx, func(tx pgx.Tx) error { _, err := store.Publish(ctx, tx, m, m); return err }),
		"without a message": inTx(func(tx pgx.Tx) error { _, err := store.Publish(ctx, tx); return err }),
	} {
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if n := value[int](t, conn, "select count(*) from outbox.message where headers ->> 'traceparent' = 'of the hook'"); n != 6 {
		t.Errorf("%d messages have the hook's header, want the first of each call", n)
	}
	err = inTx(func(tx pgx.Tx) error { _, err := store.Publish(ctx, tx, outbox.Message{Topic: "no topic"}); return err })
	if err == nil || len(ends) != 7 || ends[0] != "started 2 false" || ends[6] != "started 0 true" {
		t.Errorf("error %v, ends %q", err, ends)
	}
}
