package sqlitestore

import (
	"context"
	"database/sql"
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"

	_ "modernc.org/sqlite"

	"github.com/outboxrelay/outbox"
	"github.com/outboxrelay/outbox/storetest"
)

func TestStoreConforms(t *testing.T) {
	storetest.Run(t, func(t *testing.T) storetest.Harness {
		t.Parallel()
		return newHarness(t)
	})
}

// TestLateOnASlowMachine: messages that appear late do so when the case says, also where each transaction of an application
// takes two seconds.
func TestLateOnASlowMachine(t *testing.T) {
	late := []string{"an older head far below everything joins", "messages without a key do not wait for each other",
		"an older message that commits late waits for the younger one in flight, then goes first",
		"a given-back message joins an older one that appeared meanwhile", "two parked messages of a key are redriven in order"}
	for _, c := range storetest.Cases() {
		i := slices.Index(late, c.Name)
		if i < 0 {
			continue
		}
		late = slices.Delete(late, i, i+1)
		t.Run(c.Name, func(t *testing.T) { c.Run(t, slowly{newHarness(t)}) })
	}
	if len(late) > 0 {
		t.Errorf("there are no cases %q", late)
	}
}

// slowly is an outbox on a slow machine.
type slowly struct{ *harness }

func (h slowly) Begin(ctx context.Context) (storetest.Tx, error) {
	if err := h.Advance(ctx, 2*time.Second); err != nil {
		return nil, err
	}
	return h.harness.Begin(ctx)
}

// harness shows the Stores on one file to the conformance suite. Each has connections of its own, as a process would.
type harness struct {
	path string
	db   *sql.DB
	pub  *Store
}

func newHarness(t testing.TB) *harness {
	t.Helper()
	h := &harness{path: migratedFile(t)}
	h.db = openFile(t, h.path)
	h.pub = newStore(t, h.db, nil)
	return h
}

// migratedFile makes a file with an outbox.
func migratedFile(t testing.TB) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "outbox.db")
	db := openFile(t, path)
	if err := newStore(t, db, nil).Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	return path
}

// openFile opens a file as an application should.
func openFile(t testing.TB, path string) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+path+"?_pragma=busy_timeout(10000)&_pragma=synchronous(off)&_txlock=immediate")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db
}

func newStore(t testing.TB, db *sql.DB, cfg *Config) *Store {
	t.Helper()
	s, err := New(db, cfg)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func (h *harness) Open(t testing.TB) outbox.Store { return newStore(t, openFile(t, h.path), nil) }

func (h *harness) Operator(t testing.TB) outbox.Operator {
	return newStore(t, openFile(t, h.path), nil)
}

func (h *harness) OpenKeeping(t testing.TB, payload bool) outbox.Store {
	return newStore(t, openFile(t, h.path), &Config{KeepDelivered: outbox.KeepForever, OmitPayload: !payload})
}

func (h *harness) Archived(ctx context.Context) (list []storetest.Archived, err error) {
	rows, err := h.db.QueryContext(ctx, `select id, coalesce(key, ''), coalesce(payload, ''), outcome, coalesce(detail, ''), coalesce(actor, ''),
		coalesce(destination, ''), attempts, generation from outbox_archive order by seq, generation`)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var a storetest.Archived
		var id string
		if err := rows.Scan(&id, &a.Key, &a.Payload, &a.State, &a.Detail, &a.Actor, &a.Destination, &a.Attempts, &a.Generation); err != nil {
			return nil, err
		}
		if a.ID, err = outbox.ParseID(id); err != nil {
			return nil, err
		}
		list = append(list, a)
	}
	return list, rows.Err()
}

func (h *harness) Begin(ctx context.Context) (storetest.Tx, error) {
	tx, err := h.db.BeginTx(ctx, nil)
	return suiteTx{tx, h.pub}, err
}

// Advance puts the outbox's clock forward.
func (h *harness) Advance(ctx context.Context, d time.Duration) error { return advance(ctx, h.db, d) }

func advance(ctx context.Context, db *sql.DB, d time.Duration) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	var view string
	if err := tx.QueryRowContext(ctx, "select sql from sqlite_schema where name = 'outbox_clock'").Scan(&view); err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, "drop view outbox_clock"); err != nil {
		return err
	}
	const end = " as now"
	if _, err := tx.ExecContext(ctx, fmt.Sprintf("%s + %d%s", view[:len(view)-len(end)], d.Milliseconds(), end)); err != nil {
		return err
	}
	return tx.Commit()
}

func (h *harness) Counts(ctx context.Context) (c storetest.Counts, err error) {
	err = h.db.QueryRowContext(ctx, `select (select count(*) from outbox_message), (select count(*) from outbox_waiting),
		(select count(*) from outbox_dead), (select count(*) from outbox_listed),
		(select count(*) from outbox_claim)`).Scan(&c.Ready, &c.Waiting, &c.Dead, &c.Claimed, &c.Claims)
	return c, err
}

func (h *harness) Dead(ctx context.Context) (list []storetest.Dead, err error) {
	rows, err := h.db.QueryContext(ctx, "select id, attempts, error_class, last_error, holds from outbox_dead order by seq")
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var d storetest.Dead
		var id string
		if err := rows.Scan(&id, &d.Attempts, &d.Class, &d.Text, &d.Holds); err != nil {
			return nil, err
		}
		if d.ID, err = outbox.ParseID(id); err != nil {
			return nil, err
		}
		list = append(list, d)
	}
	return list, rows.Err()
}

func (h *harness) Features() storetest.Features {
	return storetest.Features{Notifications: true, Archive: true, OneWriter: true}
}

// suiteTx is a transaction of an application.
type suiteTx struct {
	tx  *sql.Tx
	pub *Store
}

func (tx suiteTx) Publish(ctx context.Context, ms ...outbox.Message) ([]outbox.Receipt, error) {
	return tx.pub.Publish(ctx, tx.tx, ms...)
}

func (tx suiteTx) Commit(context.Context) error   { return tx.tx.Commit() }
func (tx suiteTx) Rollback(context.Context) error { return tx.tx.Rollback() }
