package pgstore

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outboxrelay/outbox"
	"github.com/outboxrelay/outbox/internal/planted"
)

func laneOf(r *testRelay) *lane { return r.store.relay(r.info.ID).lane("lane") }

// work claims and settles once, with a look at what is left below and without a sweep.
func work(t testing.TB, r *testRelay) []*outbox.Delivery {
	t.Helper()
	l := laneOf(r)
	l.mu.Lock()
	l.base.looked, l.base.whole, l.keyed, l.busy, l.sweep.rested = time.Time{}, time.Time{}, true, true, time.Now().Add(time.Hour)
	l.mu.Unlock()
	ds := claimAgain(t, r, 10)
	r.settle(t, outbox.Delivered, ds...)
	return ds
}

// publishKey publishes a message of a key and returns its seq.
func publishKey(t testing.TB, tx pgx.Tx, key string) (seq int64) {
	t.Helper()
	err := tx.QueryRow(t.Context(), `insert into outbox.message (id, topic, key, payload)
		values (gen_random_uuid(), 'a', $1, 'x') returning seq`, key).Scan(&seq)
	if err != nil {
		t.Fatal(err)
	}
	return seq
}

// checkLate: a message whose transaction commits when the lane's floor is far above it goes before a younger one of its
// key, although the lane has come to know that nothing else is left below.
func checkLate(t testing.TB, url string, tamper func(*base)) {
	t.Helper()
	conn, writer := connect(t, url), connect(t, url)
	relay := newTestRelay(t, newStore(t, url, nil), ">")
	pass := func() {
		t.Helper()
		insert(t, conn, "a", 40, 40)
		for len(work(t, relay)) > 0 {
		}
	}
	pass()
	tx, err := writer.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	late := publishKey(t, tx, "late")
	pass()
	b := &laneOf(relay).base
	if b.high == 0 || b.high > late {
		t.Errorf("high is %d while the transaction that drew %d is open", b.high, late)
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	pass()
	if b.high <= late || !slices.Equal(b.known, []string{"late"}) {
		t.Fatalf("high is %d and known keys are %q after it has ended", b.high, b.known)
	}
	tamper(b)
	exec(t, conn, `insert into outbox.message (id, topic, key, payload) values (gen_random_uuid(), 'a', 'late', 'x')`)
	if ds := work(t, relay); len(ds) != 1 || ds[0].Seq != late {
		t.Errorf("claimed %d messages, the first is not the older one of the key", len(ds))
	}
}

func TestLateMessageBelowTheBase(t *testing.T) {
	t.Parallel()
	checkLate(t, migratedDatabase(t), func(*base) {})
}

func TestLateMessageCheckFires(t *testing.T) {
	t.Parallel()
	url := migratedDatabase(t)
	said := planted.Failures(t, func(t testing.TB) { checkLate(t, url, func(b *base) { b.known = nil }) })
	if !strings.Contains(said, "not the older one") {
		t.Errorf("a lane that knew too much was not noticed: %s", said)
	}
}

// TestLateMessageOfADedupKey: a publisher that waits for another one's dedup key has drawn its seq, and no lane may believe that
// nothing below its floor can appear any more.
func TestLateMessageOfADedupKey(t *testing.T) {
	t.Parallel()
	url := migratedDatabase(t)
	conn, first, second := connect(t, url), connect(t, url), connect(t, url)
	relay := newTestRelay(t, newStore(t, url, nil), ">")
	pass := func() {
		t.Helper()
		insert(t, conn, "a", 40, 40)
		for len(work(t, relay)) > 0 {
		}
	}
	const publish = "select outbox.publish('a', 'x', key => 'late', dedup_key => 'once')"
	exec(t, first, "begin")
	exec(t, first, publish)
	exec(t, second, "begin")
	waits := make(chan error, 1)
	go func() {
		_, err := second.Exec(t.Context(), publish)
		waits <- err
	}()
	waitUntil(t, "the second publisher waits", func() bool {
		return value[int](t, conn, "select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'") == 1
	})
	late := value[int64](t, conn, "select last_value from outbox.seq")
	pass()
	exec(t, first, "rollback")
	if err := <-waits; err != nil {
		t.Fatal(err)
	}
	pass() // while the second one is open
	pass()
	if b := &laneOf(relay).base; b.high > late {
		t.Errorf("high is %d while the transaction that drew %d is open", b.high, late)
	}
	exec(t, second, "commit")
	exec(t, conn, `insert into outbox.message (id, topic, key, payload) values (gen_random_uuid(), 'a', 'late', 'x')`)
	if ds := work(t, relay); len(ds) == 0 || ds[0].Seq != late {
		t.Errorf("claimed %d messages, the first is not the older one of the key", len(ds))
	}
}

// TestLateMessageOfAPreparedTransaction: a transaction that is prepared is no client's any more, and goes on holding its lock
// under a name of its own.
func TestLateMessageOfAPreparedTransaction(t *testing.T) {
	t.Parallel()
	url := migratedDatabase(t)
	conn, writer := connect(t, url), connect(t, url)
	relay := newTestRelay(t, newStore(t, url, nil), ">")
	pass := func() {
		t.Helper()
		insert(t, conn, "a", 40, 40)
		for len(work(t, relay)) > 0 {
		}
	}
	pass()
	tx := begin(t, writer)
	late := publishKey(t, tx, "late")
	pass()
	name := value[string](t, conn, "select quote_literal(current_database())")
	exec(t, writer, "prepare transaction "+name)
	for range 3 {
		pass()
	}
	if b := &laneOf(relay).base; b.high > late {
		t.Errorf("high is %d while the transaction that drew %d is prepared", b.high, late)
	}
	exec(t, conn, "commit prepared "+name)
	exec(t, conn, `insert into outbox.message (id, topic, key, payload) values (gen_random_uuid(), 'a', 'late', 'x')`)
	if ds := work(t, relay); len(ds) == 0 || ds[0].Seq != late {
		t.Errorf("claimed %d messages, the first is not the older one of the key", len(ds))
	}
}

// checkCrash: a crash of the database may draw seqs again that are below a lane's base.
func checkCrash(t testing.TB, url string, tamper func(*base)) {
	t.Helper()
	conn := connect(t, url)
	relay := newTestRelay(t, newStore(t, url, nil), ">")
	for range 3 {
		insert(t, conn, "a", 40, 40)
		for len(work(t, relay)) > 0 {
		}
	}
	b := &laneOf(relay).base
	if b.base < 60 {
		t.Fatalf("base is %d", b.base)
	}
	forgetClaims(t, conn)
	claimAgain(t, relay, 10) // the new connection knows its backend
	exec(t, conn, "select setval('outbox.seq', 50)")
	first := value[int64](t, conn, "insert into outbox.message (id, topic, key, payload) values (gen_random_uuid(), 'a', 'k', 'x') returning seq")
	exec(t, conn, "select setval('outbox.seq', 1000)")
	exec(t, conn, "insert into outbox.message (id, topic, key, payload) values (gen_random_uuid(), 'a', 'k', 'x')")
	tamper(b)
	if ds := work(t, relay); len(ds) != 1 || ds[0].Seq != first {
		t.Errorf("claimed %d messages, the first is not the older one of the key", len(ds))
	}
}

func TestBaseAfterCrash(t *testing.T) { checkCrash(t, migratedDatabase(t), func(*base) {}) }

func TestBaseAfterCrashCheckFires(t *testing.T) {
	t.Parallel()
	url := migratedDatabase(t)
	said := planted.Failures(t, func(t testing.TB) { checkCrash(t, url, func(b *base) { b.since = 1 << 40 }) })
	if !strings.Contains(said, "not the older one") {
		t.Errorf("a lane that trusted its base on a new connection was not noticed: %s", said)
	}
}

// TestBaseOfAnotherBackend: behind a pooler a connection does not end with its backend.
func TestBaseOfAnotherBackend(t *testing.T) {
	s := &Store{}
	l := &ledger{since: s.connections.Add(1)}
	one, two := int64(1), int32(7)
	s.learn(l, &result{low: &one, backend: &two})
	b := base{base: 5, high: 9, since: s.connections.Load()}
	if b.on(l).high != 9 {
		t.Error("the connection does not know what it has seen")
	}
	three := int32(8)
	s.learn(l, &result{low: &one, backend: &three})
	if b.on(l).high != 0 {
		t.Error("another backend is believed to be the one that has seen it")
	}
}

// TestBaseOfManyKeys: more is left than can be known. Then nothing is known above the first of it, also on connections that
// knew more before another one began anew.
func TestBaseOfManyKeys(t *testing.T) {
	many := make([]string, maxKnownKeys+1)
	for i := range many {
		many[i] = strings.Repeat("k", i+1)
	}
	ended, lowest, next, backend := true, int64(40), int64(300), int32(7)
	for _, c := range []struct {
		name string
		from int64
		anew bool
		keys []string
		want bound
	}{
		{"read from the base on", 5, false, many, bound{40, 100, []string{"a"}}},
		{"read from high on", 100, false, many, bound{5, 100, []string{"a"}}},
		{"too many to count", 5, false, nil, bound{40, 100, []string{"a"}}},
		{"anew", 0, true, many, bound{40, 40, nil}},
		{"few, anew", 0, true, []string{"b"}, bound{40, 200, []string{"b"}}},
		{"few, from high on", 100, false, []string{"b"}, bound{5, 200, []string{"a", "b"}}},
	} {
		b := base{base: 5, high: 100, known: []string{"a"}, since: 1, mark: 200, markSince: 2}
		b.learn(&baseLook{from: c.from, mark: 200, anew: c.anew, expected: backend, backend: &backend, next: &next,
			ended: &ended, keys: c.keys, lowest: &lowest}, time.Now())
		got := b.on(&ledger{since: 1})
		if got.base != c.want.base || got.high != c.want.high || !slices.Equal(got.known, c.want.known) {
			t.Errorf("%s: %v is known, want %v", c.name, got, c.want)
		}
	}
}
