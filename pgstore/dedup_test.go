package pgstore

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/outboxrelay/outbox"
)

func TestDedupKey(t *testing.T) {
	t.Parallel()
	conn := connect(t, migratedDatabase(t))
	p := newPublisher(t, nil)
	m := outbox.Message{Topic: "t", DedupKey: "d"}
	first := publish(t, conn, p, m)[0]
	if first.Duplicate || first.ID.IsZero() {
		t.Fatalf("first: %+v", first)
	}
	expect := func(state string, duplicate bool) {
		t.Helper()
		if got := publish(t, conn, p, m)[0]; got.Duplicate != duplicate || got.ID.IsZero() != duplicate {
			t.Errorf("%s: %+v, want duplicate %v", state, got, duplicate)
		}
	}
	expect("ready", true)
	exec(t, conn, `with gone as (delete from outbox.message returning *)
		insert into outbox.waiting (seq, id, topic, payload, dedup_key, available_at)
		select seq, id, topic, payload, dedup_key, clock_timestamp() from gone`)
	expect("waiting", true)
	exec(t, conn, `with gone as (delete from outbox.waiting returning *)
		insert into outbox.dead (seq, id, topic, payload, headers, dedup_key, published_at)
		select seq, id, topic, payload, headers, dedup_key, published_at from gone`)
	expect("dead", true)
	other := publish(t, conn, p, outbox.Message{Topic: "u", DedupKey: "d"}, outbox.Message{Topic: "t", DedupKey: "e"}, m)
	if other[0].Duplicate || other[1].Duplicate || !other[2].Duplicate {
		t.Errorf("another topic, another key, the same: %+v", other)
	}
	exec(t, conn, "delete from outbox.dead")
	expect("gone", false)
	expect("published again", true)
	if n := value[int](t, conn, "select count(*) from outbox.dedup where topic = 't' and dedup_key = 'd'"); n != 1 {
		t.Errorf("%d rows of the key", n)
	}
}

// TestDedupWindow: the key blocks until the window is over even when its message is gone, and the janitor's removal
// of the row frees it.
func TestDedupWindow(t *testing.T) {
	t.Parallel()
	conn := connect(t, migratedDatabase(t))
	p := newPublisher(t, nil)
	exec(t, conn, "insert into outbox.setting values ('dedup_window', '1 hour')")
	m := outbox.Message{Topic: "t", DedupKey: "d"}
	publish(t, conn, p, m)
	exec(t, conn, "delete from outbox.message")
	if !publish(t, conn, p, m)[0].Duplicate {
		t.Error("free within the window")
	}
	left := value[time.Duration](t, conn, "select expires_at - now() from outbox.dedup")
	if left < 59*time.Minute || left > time.Hour {
		t.Errorf("the window ends in %s", left)
	}
	exec(t, conn, "update outbox.dedup set expires_at = now()")
	if publish(t, conn, p, m)[0].Duplicate {
		t.Error("taken after the window")
	}
	exec(t, conn, "delete from outbox.dedup")
	if publish(t, conn, p, m)[0].Duplicate {
		t.Error("taken without a row")
	}
}

// TestDedupInOneTransaction: the same key twice, in one call and in two.
func TestDedupInOneTransaction(t *testing.T) {
	t.Parallel()
	conn := connect(t, migratedDatabase(t))
	p := newPublisher(t, nil)
	m := outbox.Message{Topic: "t", DedupKey: "d"}
	tx := begin(t, conn)
	for call, want := range [][]bool{{false, true}, {true}} {
		receipts, err := p.Publish(t.Context(), tx, []outbox.Message{m, m}[:len(want)]...)
		if err != nil {
			t.Fatal(err)
		}
		for i, r := range receipts {
			if r.Duplicate != want[i] {
				t.Errorf("call %d, message %d: %+v", call, i, r)
			}
		}
	}
	commit(t, tx)
}

// waitForLock returns when the connection's backend waits for a lock.
func waitForLock(t testing.TB, observer *pgx.Conn, pid uint32) {
	t.Helper()
	deadline := time.Now().Add(30 * time.Second)
	for !value[bool](t, observer, "select coalesce((select wait_event_type = 'Lock' from pg_stat_activity where pid = $1), false)", pid) {
		if time.Now().After(deadline) {
			t.Fatal("nobody waits for a lock")
		}
		time.Sleep(time.Millisecond)
	}
}

// TestDedupRace: the second publisher of a key waits for the first one's transaction, whether that inserts the row
// of the key or takes it over, and then tells the truth. Without the younger snapshot of take_dedup_key's third
// statement, the second would publish after a commit.
func TestDedupRace(t *testing.T) {
	t.Parallel()
	for _, takeOver := range []bool{false, true} {
		for _, committed := range []bool{false, true} {
			url := migratedDatabase(t)
			first, second, observer := connect(t, url), connect(t, url), connect(t, url)
			p := newPublisher(t, nil)
			m := outbox.Message{Topic: "t", DedupKey: "d"}
			if takeOver {
				publish(t, first, p, m)
				exec(t, first, "delete from outbox.message")
			}
			tx := begin(t, first)
			if _, err := p.Publish(t.Context(), tx, m); err != nil {
				t.Fatal(err)
			}
			got := make(chan outbox.Receipt, 1)
			go func() {
				receipts, err := tryPublish(t.Context(), second, pgx.TxOptions{}, p, m)
				if err != nil {
					t.Error(err)
					receipts = make([]outbox.Receipt, 1)
				}
				got <- receipts[0]
			}()
			waitForLock(t, observer, second.PgConn().PID())
			end := tx.Rollback
			if committed {
				end = tx.Commit
			}
			if err := end(t.Context()); err != nil {
				t.Fatal(err)
			}
			if r := <-got; r.Duplicate != committed {
				t.Errorf("take over %v, committed %v: %+v", takeOver, committed, r)
			}
			if n := value[int](t, observer, "select count(*) from outbox.message"); n != 1 {
				t.Errorf("take over %v, committed %v: %d messages", takeOver, committed, n)
			}
		}
	}
}

// TestDedupOnce: many publishers, one message.
func TestDedupOnce(t *testing.T) {
	t.Parallel()
	url := migratedDatabase(t)
	p := newPublisher(t, nil)
	observer := connect(t, url)
	for round := range 20 {
		published := make(chan bool)
		for range 4 {
			conn := connect(t, url)
			go func() {
				receipts, err := tryPublish(t.Context(), conn, pgx.TxOptions{}, p, outbox.Message{Topic: "t", DedupKey: "d"})
				if err != nil {
					t.Error(err)
				}
				published <- err == nil && !receipts[0].Duplicate
				conn.Close(context.Background())
			}()
		}
		n := 0
		for range 4 {
			if <-published {
				n++
			}
		}
		if rows := value[int](t, observer, "select count(*) from outbox.message"); n != 1 || rows != 1 {
			t.Fatalf("round %d: %d published, %d rows", round, n, rows)
		}
		exec(t, observer, "delete from outbox.message")
	}
}

func TestOwnID(t *testing.T) {
	t.Parallel()
	conn := connect(t, migratedDatabase(t))
	p := newPublisher(t, nil)
	m := outbox.Message{Topic: "t", ID: outbox.NewID()}
	if got := publish(t, conn, p, m)[0]; got.ID != m.ID || got.Duplicate {
		t.Fatalf("%+v", got)
	}
	expectTaken := func(state string, again outbox.Message) {
		t.Helper()
		tx := begin(t, conn)
		defer tx.Rollback(t.Context())
		_, err := p.Publish(t.Context(), tx, outbox.Message{Topic: "t"}, again)
		var pgErr *pgconn.PgError
		if !errors.Is(err, outbox.ErrDuplicateID) || !errors.As(err, &pgErr) || pgErr.Code != "23505" || pgErr.ConstraintName != "message_id_unique" {
			t.Errorf("%s: %v", state, err)
		}
	}
	expectTaken("ready", m)
	expectTaken("another topic", outbox.Message{Topic: "u", ID: m.ID})
	withKey := outbox.Message{Topic: "t", ID: m.ID, DedupKey: "d"}
	expectTaken("with a dedup key", withKey)
	exec(t, conn, "delete from outbox.message")
	publish(t, conn, p, withKey)
	if got := publish(t, conn, p, withKey)[0]; !got.Duplicate {
		t.Errorf("the same message again, with its dedup key: %+v", got)
	}
}

// TestUniqueViolationOfSeq: a sequence that is behind its tables, as after a careless restore, is not taken for a
// duplicate id.
func TestUniqueViolationOfSeq(t *testing.T) {
	t.Parallel()
	conn := connect(t, migratedDatabase(t))
	p := newPublisher(t, nil)
	publish(t, conn, p, outbox.Message{Topic: "t"})
	for _, m := range []outbox.Message{{Topic: "t"}, {Topic: "t", ID: outbox.NewID()}} {
		exec(t, conn, "select setval('outbox.seq', 1, false)")
		tx := begin(t, conn)
		_, err := p.Publish(t.Context(), tx, m)
		if state, _ := sqlError(err); state != "23505" || errors.Is(err, outbox.ErrDuplicateID) {
			t.Errorf("%v", err)
		}
		tx.Rollback(t.Context())
	}
}

// TestMadeIDsAreNotRegistered: an id that the library made costs no row.
func TestMadeIDsAreNotRegistered(t *testing.T) {
	t.Parallel()
	conn := connect(t, migratedDatabase(t))
	publish(t, conn, newPublisher(t, nil), outbox.Message{Topic: "t"}, outbox.Message{Topic: "t", Delay: time.Hour})
	exec(t, conn, "select outbox.publish('t', '')")
	if n := value[int](t, conn, "select count(*) from outbox.dedup"); n != 0 {
		t.Errorf("%d rows", n)
	}
}

// TestDelay: by the database's clock; what is due is ready at once.
func TestDelay(t *testing.T) {
	t.Parallel()
	conn := connect(t, migratedDatabase(t))
	at := time.Date(2100, 1, 2, 3, 4, 5, 0, time.FixedZone("", -7200))
	publish(t, conn, newPublisher(t, nil),
		outbox.Message{Topic: "delay", Delay: time.Hour}, outbox.Message{Topic: "at", DeliverAt: at},
		outbox.Message{Topic: "past", DeliverAt: time.Now().Add(-time.Hour)}, outbox.Message{Topic: "plain"})
	if got := values[string](t, conn, "select topic from outbox.message order by seq"); len(got) != 2 || got[0] != "past" || got[1] != "plain" {
		t.Errorf("ready: %q", got)
	}
	if d := value[time.Duration](t, conn, "select available_at - published_at from outbox.waiting where topic = 'delay'"); d != time.Hour {
		t.Errorf("delay %s", d)
	}
	if got := value[time.Time](t, conn, "select available_at from outbox.waiting where topic = 'at'"); !got.Equal(at) {
		t.Errorf("at %s", got)
	}
	if seqs := values[int64](t, conn, "select seq from outbox.message union all select seq from outbox.waiting order by 1"); len(seqs) != 4 {
		t.Errorf("seqs %v", seqs)
	}
}

// TestDedupRepeatableRead: in a snapshot from before the first publisher's commit the second can't know, and is told
// to try again instead of being answered wrongly.
func TestDedupRepeatableRead(t *testing.T) {
	t.Parallel()
	for _, isolation := range []pgx.TxIsoLevel{pgx.RepeatableRead, pgx.Serializable} {
		url := migratedDatabase(t)
		first, second := connect(t, url), connect(t, url)
		p := newPublisher(t, nil)
		m := outbox.Message{Topic: "t", DedupKey: "d"}
		tx, err := second.BeginTx(t.Context(), pgx.TxOptions{IsoLevel: isolation})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := tx.Exec(t.Context(), "select count(*) from outbox.dedup"); err != nil {
			t.Fatal(err)
		}
		publish(t, first, p, m)
		_, err = p.Publish(t.Context(), tx, m)
		if state, _ := sqlError(err); state != "40001" {
			t.Errorf("%s: %v, want SQLSTATE 40001", isolation, err)
		}
		if err := tx.Rollback(t.Context()); err != nil {
			t.Fatal(err)
		}
		receipts, err := tryPublish(t.Context(), second, pgx.TxOptions{IsoLevel: isolation}, p, m)
		if err != nil || !receipts[0].Duplicate {
			t.Errorf("%s: tried again: %+v, %v", isolation, receipts, err)
		}
	}
}
