package pgstore

import (
	"context"
	"database/sql"
	"errors"
	"strconv"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	_ "github.com/jackc/pgx/v5/stdlib"

	"github.com/outboxrelay/outbox"
)

// followed counts the transactions that the Store follows.
func (s *Store) followed() int {
	s.waker.mu.Lock()
	defer s.waker.mu.Unlock()
	return len(s.waker.open)
}

// openTx is an open transaction of whatever kind that has published through a Store.
type openTx interface {
	end(t *testing.T, commits bool)
}

type openPgx struct{ pgx.Tx }

func (tx openPgx) end(t *testing.T, commits bool) {
	t.Helper()
	finish := tx.Rollback
	if commits {
		finish = tx.Commit
	}
	if err := finish(t.Context()); err != nil {
		t.Fatal(err)
	}
}

type openSQL struct{ *sql.Tx }

func (tx openSQL) end(t *testing.T, commits bool) {
	t.Helper()
	finish := tx.Rollback
	if commits {
		finish = tx.Commit
	}
	if err := finish(); err != nil {
		t.Fatal(err)
	}
}

// publishers are ways to publish through a Store in a transaction that is left open.
func publishers(store *Store, conn *pgx.Conn, db *sql.DB) map[string]func(t *testing.T) openTx {
	plain, keyed := outbox.Message{Topic: "t"}, outbox.Message{Topic: "t", DedupKey: "d"}
	through := func(prepare func(t *testing.T, tx pgx.Tx) pgx.Tx, ms ...outbox.Message) func(t *testing.T) openTx {
		return func(t *testing.T) openTx {
			tx := begin(t, conn)
			succeed(t)(store.Publish(t.Context(), prepare(t, tx), ms...))
			return openPgx{tx}
		}
	}
	itself := func(_ *testing.T, tx pgx.Tx) pgx.Tx { return tx }
	beginSQL := func(t *testing.T) *sql.Tx {
		tx, err := db.BeginTx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		return tx
	}
	return map[string]func(t *testing.T) openTx{
		"one":                      through(itself, plain),
		"many":                     through(itself, ten()...),
		"a COPY":                   through(itself, thousandAndOne()...),
		"several statements":       through(itself, append(thousandAndOne(), keyed)...),
		"a duplicate at the end":   through(itself, plain, keyed, keyed),
		"scheduled":                through(itself, outbox.Message{Topic: "t", Delay: time.Hour}),
		"inside a savepoint":       through(savepoint, plain),
		"after one was taken back": through(takenBack(store), plain),
		"database/sql": func(t *testing.T) openTx {
			tx := beginSQL(t)
			succeed(t)(store.PublishSQL(t.Context(), tx, plain))
			return openSQL{tx}
		},
		"a querier": func(t *testing.T) openTx {
			tx := beginSQL(t)
			succeed(t)(store.PublishQuerier(t.Context(), tx, ten()...))
			return openSQL{tx}
		},
	}
}

// succeed fails the test if publishing did.
func succeed(t *testing.T) func([]outbox.Receipt, error) {
	return func(_ []outbox.Receipt, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
}

func thousandAndOne() []outbox.Message {
	ms := make([]outbox.Message, chunkMessages+1)
	for i := range ms {
		ms[i].Topic = "t"
	}
	return ms
}

func savepoint(t *testing.T, tx pgx.Tx) pgx.Tx {
	t.Helper()
	inner, err := tx.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return inner
}

// takenBack publishes in a savepoint that is rolled back, if it can with the notification of its window.
func takenBack(store *Store) func(t *testing.T, tx pgx.Tx) pgx.Tx {
	return func(t *testing.T, tx pgx.Tx) pgx.Tx {
		t.Helper()
		inner := savepoint(t, tx)
		succeed(t)(store.Publish(t.Context(), inner, outbox.Message{Topic: "t"}))
		openPgx{inner}.end(t, false)
		return tx
	}
}

// openFollowed repeats a publishing until it was one that does not notify itself.
func openFollowed(t *testing.T, store *Store, publish func(t *testing.T) openTx) openTx {
	t.Helper()
	for range 100 {
		store.waker.turn(time.Now())
		tx := publish(t)
		if store.followed() > 0 {
			return tx
		}
		tx.end(t, false)
	}
	t.Fatal("every transaction notifies itself")
	return nil
}

// TestStoreWakesForEach: whatever a transaction published, and however, relays are woken when it has committed, also
// when it was not its turn to notify. Nothing polls here.
func TestStoreWakesForEach(t *testing.T) {
	t.Parallel()
	url := migratedDatabase(t)
	store, conn, listener := newStore(t, url, nil), connect(t, url), listen(t, url)
	db, err := sql.Open("pgx", url)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for name, publish := range publishers(store, conn, db) {
		t.Run(name, func(t *testing.T) {
			tx := openFollowed(t, store, publish)
			listener.count(t)
			tx.end(t, true)
			listener.await(t)
			waitUntil(t, "nothing is followed", func() bool { return store.followed() == 0 })
			listener.count(t)
		})
	}
}

// TestStoreWakesBesideOpenTransaction: a transaction that published stays open or is rolled back, whatever became of its
// notification, and another one of the process that commits meanwhile wakes.
func TestStoreWakesBesideOpenTransaction(t *testing.T) {
	t.Parallel()
	url := migratedDatabase(t)
	store, slow, quick, listener := newStore(t, url, nil), connect(t, url), connect(t, url), listen(t, url)
	publish := func(conn *pgx.Conn) func(t *testing.T) openTx {
		return publishers(store, conn, nil)["one"]
	}
	for name, first := range map[string]func(t *testing.T) openTx{
		"which notifies": publish(slow),
		"which does not": func(t *testing.T) openTx { return openFollowed(t, store, publish(slow)) },
	} {
		for _, open := range []bool{true, false} {
			t.Run(name+", open "+strconv.FormatBool(open), func(t *testing.T) {
				before := first(t)
				if !open {
					before.end(t, false)
				}
				listener.count(t)
				publish(quick)(t).end(t, true)
				listener.await(t)
				if open {
					before.end(t, false)
				}
				waitUntil(t, "nothing is followed", func() bool { return store.followed() == 0 })
				listener.count(t)
			})
		}
	}
}

// TestStoreNotifiesSeldom: many transactions notify at most twice per window, from inside and from outside.
func TestStoreNotifiesSeldom(t *testing.T) {
	t.Parallel()
	url := migratedDatabase(t)
	store, conn, listener := newStore(t, url, nil), connect(t, url), listen(t, url)
	const transactions = 500
	began := time.Now()
	for range transactions {
		publishers(store, conn, nil)["one"](t).end(t, true)
	}
	waitUntil(t, "nothing is followed", func() bool { return store.followed() == 0 })
	most := 2 + 2*int(time.Since(began)/wakeShortWindow)
	n := listener.count(t)
	if n < 1 || n > most {
		t.Errorf("%d notifications of %d transactions in %v, want at most %d", n, transactions, time.Since(began), most)
	}
}

// TestStoreNotifyOff: a Store that does not notify follows nobody.
func TestStoreNotifyOff(t *testing.T) {
	t.Parallel()
	url := migratedDatabase(t)
	store, conn, listener := newStore(t, url, &Config{Notify: NotifyOff}), connect(t, url), listen(t, url)
	for range 3 {
		publishers(store, conn, nil)["one"](t).end(t, true)
	}
	if err := store.InTx(t.Context(), publishIn(t, store)); err != nil {
		t.Fatal(err)
	}
	if n := store.followed(); n != 0 {
		t.Errorf("%d transactions are followed", n)
	}
	listener.expect(t, 0)
}

func publishIn(t *testing.T, store *Store) func(tx pgx.Tx) error {
	return func(tx pgx.Tx) error {
		_, err := store.Publish(t.Context(), tx, outbox.Message{Topic: "t"})
		return err
	}
}

// TestStoreFollowsNoDuplicate: who published nothing is not followed, nor is who failed.
func TestStoreFollowsNoDuplicate(t *testing.T) {
	t.Parallel()
	url := migratedDatabase(t)
	store, conn := newStore(t, url, nil), connect(t, url)
	m := outbox.Message{Topic: "t", ID: outbox.NewID(), DedupKey: "d"}
	tx := begin(t, conn)
	succeed(t)(store.Publisher.Publish(t.Context(), tx, m))
	store.waker.turn(time.Now())
	succeed(t)(store.Publish(t.Context(), tx, outbox.Message{Topic: "t", DedupKey: "d"}))
	if _, err := store.Publish(t.Context(), tx, outbox.Message{Topic: "t", ID: m.ID}); !errors.Is(err, outbox.ErrDuplicateID) {
		t.Error(err)
	}
	if n := store.followed(); n != 0 {
		t.Errorf("%d transactions are followed", n)
	}
	if _, err := store.Publish(t.Context(), nil, m); !errors.Is(err, outbox.ErrNoTransaction) {
		t.Error(err)
	}
	openPgx{tx}.end(t, false)
}

// TestStoreCloseTells: what is pending when a Store is closed is told, and later publishing notifies by itself.
func TestStoreCloseTells(t *testing.T) {
	t.Parallel()
	url := migratedDatabase(t)
	store, conn, listener := newStore(t, url, nil), connect(t, url), listen(t, url)
	publish := publishers(store, conn, nil)["one"]
	tx := openFollowed(t, store, publish)
	listener.count(t)
	store.Close()
	listener.expect(t, 1)
	tx.end(t, true)
	for range 3 {
		publish(t).end(t, true)
		listener.expect(t, 1)
	}
	if err := store.InTx(t.Context(), publishIn(t, store)); err != nil {
		t.Fatal(err)
	}
	listener.expect(t, 1)
}

// TestInTx: the commit notifies nobody. The Store's own lanes are woken without a notification, the others' by the waker.
func TestInTx(t *testing.T) {
	t.Parallel()
	url := migratedDatabase(t)
	store, listener := newStore(t, url, nil), listen(t, url)
	ask := store.waker.ask
	certain := make(chan bool, 100)
	store.waker.ask = func(_ context.Context, _ []string, c bool) ([]string, bool, error) {
		certain <- c
		return nil, true, nil
	}
	for name, f := range map[string]func(tx pgx.Tx) error{
		"plain": publishIn(t, store),
		"in a savepoint": func(tx pgx.Tx) error {
			return pgx.BeginFunc(t.Context(), tx, publishIn(t, store))
		},
	} {
		seen := store.signal.seen()
		if err := store.InTx(t.Context(), f); err != nil {
			t.Fatal(err)
		}
		if store.signal.seen() == seen {
			t.Errorf("%s: the Store's own lanes are not woken", name)
		}
		if !<-certain {
			t.Errorf("%s: the waker asks whether the transaction has ended", name)
		}
		listener.expect(t, 0)
	}
	waitUntil(t, "the loop has ended", func() bool { return !store.waker.isLooping() })
	store.waker.ask = ask
	if err := store.InTx(t.Context(), publishIn(t, store)); err != nil {
		t.Fatal(err)
	}
	listener.await(t)
}

// TestInTxThatFails: nothing exists and nobody is woken; also when nothing was published.
func TestInTxThatFails(t *testing.T) {
	t.Parallel()
	url := migratedDatabase(t)
	store, conn, listener := newStore(t, url, nil), connect(t, url), listen(t, url)
	seen, refused := store.signal.seen(), errors.New("refused")
	err := store.InTx(t.Context(), func(tx pgx.Tx) error { return errors.Join(publishIn(t, store)(tx), refused) })
	if !errors.Is(err, refused) {
		t.Errorf("InTx() = %v", err)
	}
	func() {
		defer func() {
			if recover() == nil {
				t.Error("the panic was swallowed")
			}
		}()
		_ = store.InTx(t.Context(), func(tx pgx.Tx) error {
			_ = publishIn(t, store)(tx)
			panic("in the middle")
		})
	}()
	if err := store.InTx(t.Context(), func(pgx.Tx) error { return nil }); err != nil {
		t.Fatal(err)
	}
	if n := value[int](t, conn, "select count(*) from outbox.message"); n != 0 || store.signal.seen() != seen || store.waker.isLooping() {
		t.Errorf("%d messages", n)
	}
	listener.expect(t, 0)
	store.within.Range(func(any, any) bool { t.Error("a transaction is remembered"); return false })
}
