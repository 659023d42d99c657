package pgstore

import (
	"context"
	"database/sql"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	_ "github.com/jackc/pgx/v5/stdlib"

	"github.com/outboxrelay/outbox"
	"github.com/outboxrelay/outbox/storetest"
)

// TestSettleTxInEveryIsolation: what the suite demands of settling in a transaction holds at every level.
func TestSettleTxInEveryIsolation(t *testing.T) {
	t.Parallel()
	for _, level := range []pgx.TxIsoLevel{pgx.RepeatableRead, pgx.Serializable} {
		for _, c := range storetest.Cases() {
			if c.Guarantee != storetest.OwnSettle {
				continue
			}
			t.Run(string(level)+"/"+c.Name, func(t *testing.T) {
				t.Parallel()
				h := newHarness(t, nil)
				h.level = level
				c.Run(t, h)
			})
		}
	}
}

// TestSettleTxSnapshotOlderThanTakeover: under REPEATABLE READ a snapshot from before the takeover still shows the claim
// as the relay's, and does not let a late settlement pass.
func TestSettleTxSnapshotOlderThanTakeover(t *testing.T) {
	t.Parallel()
	for _, whole := range []bool{true, false} {
		url := migratedDatabase(t)
		conn := connect(t, url)
		store := newStore(t, url, nil)
		insert(t, conn, "a", 1, 0)
		if !whole {
			insert(t, conn, "b", 1, 0)
		}
		late := newTestRelay(t, store, ">")
		ds := late.claim(t, 10)
		tx, err := conn.BeginTx(t.Context(), pgx.TxOptions{IsoLevel: pgx.RepeatableRead})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := tx.Exec(t.Context(), "select count(*) from outbox.message"); err != nil { // takes the snapshot
			t.Fatal(err)
		}
		exec(t, connect(t, url), "update outbox.relay set lease_until = lease_until - interval '1 hour'")
		other := newTestRelay(t, store, "a") // of two messages one stays listed where it was
		if n := len(other.claim(t, 10)); n != 1 {
			t.Fatalf("%d messages were taken over", n)
		}
		err = store.SettleTx(t.Context(), tx, ds[0])
		if state, _ := sqlError(err); state != "40001" {
			t.Errorf("a settlement from before the takeover: %v, want SQLSTATE 40001", err)
		}
		_ = tx.Rollback(t.Context())
	}
}

// TestSettleTxBesideSettledParts: other messages of the claim are settled after the snapshot of a REPEATABLE READ transaction,
// and the relay's heartbeats come and go.
func TestSettleTxBesideSettledParts(t *testing.T) {
	t.Parallel()
	url := migratedDatabase(t)
	conn := connect(t, url)
	store := newStore(t, url, nil)
	insert(t, conn, "a", 3, 0)
	r := newTestRelay(t, store, ">")
	ds := r.claim(t, 10)
	tx, err := conn.BeginTx(t.Context(), pgx.TxOptions{IsoLevel: pgx.RepeatableRead})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), "select 1"); err != nil {
		t.Fatal(err)
	}
	r.settle(t, outbox.Retried, ds[0])
	r.beat(t)
	r.beat(t)
	if err := store.SettleTx(t.Context(), tx, ds[1]); err != nil {
		t.Fatal(err)
	}
	if got := r.settle(t, outbox.Delivered, ds[2]); got[0] != outbox.SettledNow {
		t.Errorf("another part is %v", got)
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := r.settle(t, outbox.Delivered, ds[1]); got[0] != outbox.SettledNow {
		t.Errorf("the settled one is %v", got)
	}
}

// TestSettleTxLeavesTheTransactionAlone: planner settings and search path are as the handler made them.
func TestSettleTxLeavesTheTransactionAlone(t *testing.T) {
	t.Parallel()
	url := migratedDatabase(t)
	conn := connect(t, url)
	store := newStore(t, url, nil)
	insert(t, conn, "a", 1, 0)
	ds := newTestRelay(t, store, ">").claim(t, 1)
	const settings = `select string_agg(name || setting, ',' order by name) from pg_settings`
	before := value[string](t, conn, settings)
	exec(t, conn, "begin")
	if err := pgx.BeginFunc(t.Context(), conn, func(tx pgx.Tx) error { return store.SettleTx(t.Context(), tx, ds[0]) }); err != nil {
		t.Fatal(err)
	}
	if after := value[string](t, conn, settings); after != before {
		t.Errorf("the settings were\n%s\nand are\n%s", before, after)
	}
	exec(t, conn, "rollback")
}

// TestHandlerTransactionOutlivesTheLease: a real relay with a lease of a second, a handler whose transaction stays open
// for more than two of them.
func TestHandlerTransactionOutlivesTheLease(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for two leases")
	}
	t.Parallel()
	url := migratedDatabase(t)
	store := newStore(t, url, nil)
	conn := connect(t, url)
	exec(t, conn, "create table effect (id uuid)")
	db, err := sql.Open("pgx", url)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	var beats atomic.Int64
	handler := outbox.SinkFunc(func(ctx context.Context, d *outbox.Delivery) error {
		tx, err := db.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelRepeatableRead})
		if err != nil {
			return err
		}
		defer func() { _ = tx.Rollback() }()
		if _, err := tx.ExecContext(ctx, "insert into effect values ($1)", d.ID.String()); err != nil {
			return err
		}
		if err := store.SettleSQL(ctx, tx, d); err != nil {
			return err
		}
		for from := beats.Load(); beats.Load() < from+8; time.Sleep(10 * time.Millisecond) { // three come in each lease
			if err := ctx.Err(); err != nil {
				return err
			}
		}
		return tx.Commit()
	})
	relay, err := outbox.NewRelay(store, outbox.To(handler), &outbox.Config{Lease: time.Second, Hooks: outbox.Hooks{
		Event: func(_ context.Context, e outbox.Event) {
			if e.Kind == outbox.EventBeat {
				beats.Add(1)
			}
		}}})
	if err != nil {
		t.Fatal(err)
	}
	other, err := outbox.NewRelay(newStore(t, url, nil), outbox.To(handler), &outbox.Config{Lease: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- other.Run(ctx) }()
	insert(t, conn, "a", 3, 0)
	for deadline := time.Now().Add(30 * time.Second); value[int](t, conn, "select count(*) from outbox.message") > 0; {
		if time.Now().After(deadline) {
			t.Fatal("the messages are not delivered")
		}
		if _, err := relay.RunUntilIdle(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if n := value[int](t, conn, "select count(*) from effect"); n != 3 {
		t.Errorf("%d effects of 3 messages", n)
	}
}

// TestHandlerLeavesItsTransactionOpen: the relay waits until it can tell, delivers others meanwhile, and takes the truth.
func TestHandlerLeavesItsTransactionOpen(t *testing.T) {
	t.Parallel()
	for _, commits := range []bool{true, false} {
		url := migratedDatabase(t)
		store := newStore(t, url, nil)
		conn := connect(t, url)
		insert(t, conn, "left.open", 1, 0)
		insert(t, conn, "other", 20, 0)
		left := make(chan pgx.Tx, 1)
		var others, attempts atomic.Int64
		handler := outbox.SinkFunc(func(ctx context.Context, d *outbox.Delivery) error {
			if d.Topic == "other" {
				others.Add(1)
				return nil
			}
			if attempts.Add(1) > 1 {
				return nil
			}
			tx, err := conn.Begin(context.WithoutCancel(ctx))
			if err == nil {
				err = store.SettleTx(ctx, tx, d)
				left <- tx
			}
			return err
		})
		relay, err := outbox.NewRelay(store, outbox.To(handler), &outbox.Config{Retry: outbox.RetryPolicy{Base: time.Millisecond, Max: time.Millisecond}})
		if err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		var counts outbox.Counts
		go func() {
			for counts.Delivered < 21 {
				n, err := relay.RunUntilIdle(t.Context())
				counts.Delivered, counts.Retried = counts.Delivered+n.Delivered, counts.Retried+n.Retried
				if err != nil {
					ended <- err
					return
				}
			}
			ended <- nil
		}()
		tx := <-left
		for others.Load() < 20 {
			time.Sleep(time.Millisecond)
		}
		end := tx.Rollback
		if commits {
			end = tx.Commit
		}
		if err := end(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := <-ended; err != nil {
			t.Fatal(err)
		}
		want := outbox.Counts{Delivered: 21}
		if !commits {
			want.Retried = 1
		}
		if counts != want {
			t.Errorf("commits %v: %+v, want %+v", commits, counts, want)
		}
	}
}

func TestSettleTxRefusesNil(t *testing.T) {
	t.Parallel()
	store := newStore(t, migratedDatabase(t), nil)
	d := &outbox.Delivery{}
	for _, err := range []error{store.SettleTx(t.Context(), nil, d), store.SettleSQL(t.Context(), nil, d)} {
		if !errors.Is(err, outbox.ErrNoTransaction) {
			t.Errorf("%v, want ErrNoTransaction", err)
		}
	}
}
