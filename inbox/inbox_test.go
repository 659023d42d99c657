package inbox_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/outboxrelay/outbox"
	"github.com/outboxrelay/outbox/inbox"
)

func begin(t *testing.T, db inbox.Beginner, level pgx.TxIsoLevel) pgx.Tx {
	t.Helper()
	tx, err := db.BeginTx(t.Context(), pgx.TxOptions{IsoLevel: level})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tx.Rollback(context.Background()) })
	return tx
}

func once(t *testing.T, box *inbox.Inbox, tx pgx.Tx, consumer, id string) bool {
	t.Helper()
	first, err := box.Once(t.Context(), tx, consumer, id)
	if err != nil {
		t.Fatal(err)
	}
	return first
}

func TestOnce(t *testing.T) {
	box, pool := newInbox(t)
	tx := begin(t, pool, pgx.ReadCommitted)
	if !once(t, box, tx, "mail", "1") || once(t, box, tx, "mail", "1") || !once(t, box, tx, "ledger", "1") || !once(t, box, tx, "mail", "2") {
		t.Error("within a transaction")
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	tx = begin(t, pool, pgx.Serializable)
	if once(t, box, tx, "mail", "1") || !once(t, box, tx, "mail", "3") {
		t.Error("after its commit")
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if !once(t, box, begin(t, pool, pgx.ReadCommitted), "mail", "3") {
		t.Error("a mark outlived the rollback of its transaction")
	}
}

// TestOnceWaitsForTheFirst: the second of two transactions waits for the first, and learns how that ended.
func TestOnceWaitsForTheFirst(t *testing.T) {
	for _, c := range []struct {
		level         pgx.TxIsoLevel
		commit, first bool
		state         string
	}{
		{pgx.ReadCommitted, true, false, ""},
		{pgx.ReadCommitted, false, true, ""},
		{pgx.RepeatableRead, true, false, "40001"},
		{pgx.RepeatableRead, false, true, ""},
	} {
		box, pool := newInbox(t)
		one, two := begin(t, pool, c.level), begin(t, pool, c.level)
		if _, err := two.Exec(t.Context(), "select 1"); err != nil { // takes its snapshot
			t.Fatal(err)
		}
		if !once(t, box, one, "mail", "1") {
			t.Fatal("the first is not the first")
		}
		type result struct {
			first bool
			err   error
		}
		results := make(chan result)
		go func() {
			first, err := box.Once(t.Context(), two, "mail", "1")
			results <- result{first, err}
		}()
		for count(t, pool, "select count(*) from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()") == 0 {
			time.Sleep(time.Millisecond)
		}
		end := one.Rollback
		if c.commit {
			end = one.Commit
		}
		if err := end(t.Context()); err != nil {
			t.Fatal(err)
		}
		got := <-results
		var pgErr *pgconn.PgError
		state := ""
		if errors.As(got.err, &pgErr) {
			state = pgErr.Code
		}
		if got.first != c.first || state != c.state {
			t.Errorf("%+v: first %v, error %v", c, got.first, got.err)
		}
	}
}

// TestOnceUnderRedelivery: many deliveries of the same messages at a time, some rolled back, make each effect once.
func TestOnceUnderRedelivery(t *testing.T) {
	box, pool := newInbox(t)
	var group sync.WaitGroup
	for w := range 8 {
		group.Go(func() {
			for i := range 40 {
				err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
					id := string(rune('a' + (i*7+w)%10))
					first, err := box.Once(t.Context(), tx, "mail", id)
					if err != nil || !first {
						return err
					}
					if _, err := tx.Exec(t.Context(), "insert into effect values ($1)", id); err != nil {
						return err
					}
					if (i+w)%3 == 0 {
						return errRollback
					}
					return nil
				})
				if err != nil && !errors.Is(err, errRollback) {
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
	if all, different := count(t, pool, "select count(*) from effect"), count(t, pool, "select count(distinct id) from effect"); all != 10 || different != 10 {
		t.Errorf("%d effects of %d messages, want 10 of 10", all, different)
	}
}

var errRollback = errors.New("roll back")

func TestOnceRefuses(t *testing.T) {
	box, pool := newInbox(t)
	tx := begin(t, pool, pgx.ReadCommitted)
	for _, c := range [][2]string{{"", "1"}, {"mail", ""}, {strings.Repeat("x", 256), "1"}, {"mail", "\x00"}, {"mail", "\xff"}} {
		var field *outbox.FieldError
		if _, err := box.Once(t.Context(), tx, c[0], c[1]); !errors.As(err, &field) {
			t.Errorf("%q: %v, want a FieldError", c, err)
		}
	}
	if !once(t, box, tx, strings.Repeat("x", 255), strings.Repeat("y", 255)) {
		t.Error("the transaction was spoilt")
	}
	for _, schema := range []string{"Inbox", "pg_inbox", "1", "a b", strings.Repeat("a", 64)} {
		var field *outbox.FieldError
		if _, err := inbox.New(&inbox.Config{Schema: schema}); !errors.As(err, &field) {
			t.Errorf("schema %q: %v, want a FieldError", schema, err)
		}
	}
	if _, err := box.Once(t.Context(), nil, "mail", "1"); !errors.Is(err, outbox.ErrNoTransaction) {
		t.Errorf("%v, want ErrNoTransaction", err)
	}
}

func TestOnceWithoutTable(t *testing.T) {
	box, err := inbox.New(&inbox.Config{Schema: "user"})
	if err != nil {
		t.Fatal(err)
	}
	pool := newPool(t)
	if _, err := box.Once(t.Context(), begin(t, pool, pgx.ReadCommitted), "mail", "1"); !errors.Is(err, outbox.ErrSchemaMissing) {
		t.Errorf("%v, want ErrSchemaMissing", err)
	}
	if err := box.Migrate(t.Context(), pool); err != nil { // a name that must be quoted
		t.Fatal(err)
	}
	if !once(t, box, begin(t, pool, pgx.ReadCommitted), "mail", "1") {
		t.Error("not the first")
	}
}

// TestMigrateManyAtOnce: also where the defaults of the database are hostile.
func TestMigrateManyAtOnce(t *testing.T) {
	pool := newPool(t)
	exec(t, pool, `do $$ begin execute format('alter database %I set default_transaction_read_only = on', current_database()); end $$`)
	exec(t, pool, `do $$ begin execute format('alter database %I set default_transaction_isolation = serializable', current_database()); end $$`)
	pool.Reset()
	box, err := inbox.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	var group sync.WaitGroup
	for range 5 {
		group.Go(func() {
			for range 2 {
				if err := box.Migrate(t.Context(), pool); err != nil {
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
	if n := count(t, pool, "select count(*) from inbox.mark"); n != 0 {
		t.Errorf("%d marks", n)
	}
}

func TestPurge(t *testing.T) {
	box, pool := newInbox(t)
	exec(t, pool, `insert into inbox.mark select 'mail', g::text, now() - case when g <= 12000 then interval '8 days' else interval '6 days' end
		from generate_series(1, 12010) g`)
	removed, err := box.Purge(t.Context(), pool, 7*24*time.Hour)
	if err != nil || removed != 12000 {
		t.Errorf("removed %d, %v", removed, err)
	}
	if n := count(t, pool, "select count(*) from inbox.mark"); n != 10 {
		t.Errorf("%d marks are left", n)
	}
	var field *outbox.FieldError
	if _, err := box.Purge(t.Context(), pool, 0); !errors.As(err, &field) {
		t.Errorf("%v, want a FieldError", err)
	}
}

// TestOnceNeedsInsertOnly: a consumer's role needs no more.
func TestOnceNeedsInsertOnly(t *testing.T) {
	box, pool := newInbox(t)
	tx := begin(t, pool, pgx.ReadCommitted) // the role ends with the transaction
	for _, sql := range []string{
		"create role inbox_consumer", "grant usage on schema inbox to inbox_consumer",
		"grant insert on inbox.mark to inbox_consumer", "set local role inbox_consumer",
	} {
		if _, err := tx.Exec(t.Context(), sql); err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
	}
	if !once(t, box, tx, "mail", "1") || once(t, box, tx, "mail", "1") {
		t.Error("marks are wrong")
	}
	if _, err := tx.Exec(t.Context(), "select from inbox.mark"); err == nil {
		t.Error("the role may read")
	}
}
