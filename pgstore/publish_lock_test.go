package pgstore

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outboxrelay/outbox"
)

// keyLocks are the key locks that a backend has.
const keyLocks = "select count(*)::int from pg_locks where locktype = 'advisory' and classid = 28516 and granted and pid = $1"

func pid(conn *pgx.Conn) uint32 { return conn.PgConn().PID() }

func keyed(keys ...string) []outbox.Message {
	var ms []outbox.Message
	for _, key := range keys {
		ms = append(ms, outbox.Message{Topic: "t", Key: key})
	}
	return ms
}

// publishWith publishes in an open transaction.
func publishWith(t *testing.T, tx pgx.Tx, p *Publisher, ms ...outbox.Message) {
	t.Helper()
	if _, err := p.Publish(t.Context(), tx, ms...); err != nil {
		t.Fatal(err)
	}
}

// publishAside publishes in the background, in a transaction of its own.
func publishAside(t *testing.T, conn *pgx.Conn, p *Publisher, ms ...outbox.Message) <-chan error {
	done := make(chan error, 1)
	go func() {
		_, err := tryPublish(t.Context(), conn, pgx.TxOptions{}, p, ms...)
		done <- err
	}()
	return done
}

// blocked waits until the backend waits for a lock.
func blocked(t *testing.T, observer, conn *pgx.Conn) {
	t.Helper()
	eventually(t, func() bool {
		return value[bool](t, observer, "select coalesce((select wait_event_type = 'Lock' from pg_stat_activity where pid = $1), false)", pid(conn))
	})
}

// twoBuckets returns two keys of different buckets, the one that is locked first first.
func twoBuckets(t *testing.T, conn *pgx.Conn) (low, high string) {
	t.Helper()
	keys := values[string](t, conn, `select (array_agg(k))[1] from generate_series(1, 9) n, lateral (select 'k' || n) x(k)
		group by hashtext(k collate "C") & 63 order by hashtext((array_agg(k))[1] collate "C") & 63 limit 2`)
	return keys[0], keys[1]
}

// TestLockKeysWaits: the second transaction of a key draws no seq before the first has ended, in every way to publish.
func TestLockKeysWaits(t *testing.T) {
	t.Parallel()
	for name, m := range map[string]outbox.Message{
		"plain":   {Topic: "t", Key: "k"},
		"special": {Topic: "t", Key: "k", DedupKey: "d"},
		"delayed": {Topic: "t", Key: "k", Delay: time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := migratedDatabase(t)
			first, second, observer := connect(t, url), connect(t, url), connect(t, url)
			p := newPublisher(t, &PublishConfig{LockKeys: true})
			tx := begin(t, first)
			publishWith(t, tx, p, keyed("k")...)
			drawn := value[int64](t, observer, "select last_value from outbox.seq")
			done := publishAside(t, second, p, outbox.Message{Topic: "t"}, m)
			blocked(t, observer, second)
			if now := value[int64](t, observer, "select last_value from outbox.seq"); now != drawn {
				t.Errorf("seq went from %d to %d before the lock was there", drawn, now)
			}
			commit(t, tx)
			if err := <-done; err != nil {
				t.Fatal(err)
			}
		})
	}
}

// outOfOrder lets transactions race for a key, each open for a moment after its publishing, and counts how often one
// becomes visible below another that was visible before.
func outOfOrder(t *testing.T, cfg *PublishConfig) int {
	url := migratedDatabase(t)
	p, observer := newPublisher(t, cfg), connect(t, url)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var wg sync.WaitGroup
	for i := range 4 {
		conn := connect(t, url)
		wg.Go(func() {
			for n := range 25 {
				err := pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
					if _, err := p.Publish(ctx, tx, keyed("k", fmt.Sprint(i, n))...); err != nil {
						return err
					}
					_, err := tx.Exec(ctx, "select pg_sleep($1)", rand.Float64()/200)
					return err
				})
				if err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	var highest int64
	passed, seen := 0, map[int64]bool{}
	for deadline := time.Now().Add(time.Minute); len(seen) < 100; {
		if time.Now().After(deadline) {
			t.Fatalf("%d of 100 messages after a minute", len(seen))
		}
		before := highest
		for _, seq := range values[int64](t, observer, "select seq from outbox.message where key = 'k'") {
			if !seen[seq] && seq < before {
				passed++
			}
			seen[seq], highest = true, max(highest, seq)
		}
	}
	wg.Wait()
	return passed
}

// TestLockKeysOrder: with LockKeys the seqs of a key become visible in their order; without it they do not.
func TestLockKeysOrder(t *testing.T) {
	t.Parallel()
	if n := outOfOrder(t, &PublishConfig{LockKeys: true}); n != 0 {
		t.Errorf("with LockKeys %d of 100 became visible after a higher one", n)
	}
	if n := outOfOrder(t, nil); n == 0 {
		t.Error("without LockKeys none became visible after a higher one: the test proves nothing")
	}
}

// TestLockKeysOneCall: a call that waits for one bucket does not hold a later one, whatever the order of its
// messages, so that two calls never wait for each other.
func TestLockKeysOneCall(t *testing.T) {
	t.Parallel()
	url := migratedDatabase(t)
	holder, one, other, observer := connect(t, url), connect(t, url), connect(t, url), connect(t, url)
	low, high := twoBuckets(t, holder)
	p := newPublisher(t, &PublishConfig{LockKeys: true})
	tx := begin(t, holder)
	publishWith(t, tx, p, keyed(low)...)
	first := publishAside(t, one, p, keyed(low, high)...)
	second := publishAside(t, other, p, keyed(high, low)...)
	for _, conn := range []*pgx.Conn{one, other} {
		blocked(t, observer, conn)
		if n := value[int](t, observer, keyLocks, pid(conn)); n != 0 {
			t.Errorf("a call that waits for the first bucket holds %d", n)
		}
	}
	commit(t, tx)
	for _, done := range []<-chan error{first, second} {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

// TestLockKeysTwoCalls: transactions that publish keys in several calls, in opposite order, do deadlock; the database
// ends one of them. All keys in the first call are the way out.
func TestLockKeysTwoCalls(t *testing.T) {
	t.Parallel()
	url := migratedDatabase(t)
	one, other, observer := connect(t, url), connect(t, url), connect(t, url)
	low, high := twoBuckets(t, one)
	p := newPublisher(t, &PublishConfig{LockKeys: true})
	first, second := begin(t, one), begin(t, other)
	publishWith(t, first, p, keyed(low)...)
	publishWith(t, second, p, keyed(high)...)
	done := make(chan error, 1)
	go func() {
		_, err := p.Publish(t.Context(), first, keyed(high)...)
		done <- err
	}()
	blocked(t, observer, one)
	_, err := p.Publish(t.Context(), second, keyed(low)...)
	if err != nil {
		_ = second.Rollback(t.Context())
	}
	failed := []string{state(err), state(<-done)}
	if !slices.Contains(failed, "40P01") || !slices.Contains(failed, "") {
		t.Errorf("SQLSTATEs %q, want one 40P01", failed)
	}
	_, _ = first.Rollback(t.Context()), second.Rollback(t.Context())

	first = begin(t, one)
	exec(t, one, "select outbox.lock_keys(array[$1, $2])", low, high)
	publishWith(t, first, p, keyed(low)...)
	waiting := publishAside(t, other, p, keyed(high)...)
	blocked(t, observer, other)
	publishWith(t, first, p, keyed(high)...)
	commit(t, first)
	if err := <-waiting; err != nil {
		t.Error(err)
	}
}

func state(err error) string {
	s, _ := sqlError(err)
	return s
}

// TestLockKeysCount: however many keys, 64 locks.
func TestLockKeysCount(t *testing.T) {
	t.Parallel()
	conn := connect(t, migratedDatabase(t))
	ms := make([]outbox.Message, 10_000)
	for i := range ms {
		ms[i] = outbox.Message{Topic: "t", Key: fmt.Sprint("key ", i)}
	}
	for _, cfg := range []*PublishConfig{nil, {LockKeys: true}} {
		tx := begin(t, conn)
		publishWith(t, tx, newPublisher(t, cfg), ms...)
		want := 0
		if cfg != nil {
			want = 64
		}
		if n := value[int](t, conn, keyLocks, pid(conn)); n != want {
			t.Errorf("%+v: %d locks, want %d", cfg, n, want)
		}
		commit(t, tx)
	}
	if n := value[int](t, conn, "select count(*)::int from outbox.message"); n != 20_000 {
		t.Errorf("%d messages", n)
	}
	if n := value[int](t, conn, keyLocks, pid(conn)); n != 0 {
		t.Errorf("%d locks after the commit", n)
	}
}

// TestLockKeysSameRows: what is published is the same with LockKeys.
func TestLockKeysSameRows(t *testing.T) {
	t.Parallel()
	for name, mode := range execModes {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg, err := pgx.ParseConfig(migratedDatabase(t))
			if err != nil {
				t.Fatal(err)
			}
			cfg.DefaultQueryExecMode = mode
			conn, err := pgx.ConnectConfig(t.Context(), cfg)
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close(context.Background())
			p := newPublisher(t, &PublishConfig{LockKeys: true})
			var ms []outbox.Message
			var receipts []outbox.Receipt
			for _, some := range [][]outbox.Message{everyMessage(), special(everyMessage()), keyed("k"), keyed("")} {
				ms = append(ms, some...)
				receipts = append(receipts, publish(t, conn, p, some...)...)
			}
			checkStored(t, stored(t, conn), ms, receipts)
		})
	}
}

// TestLockKeysSetting: the SQL functions lock the key when the setting says so, and only then.
func TestLockKeysSetting(t *testing.T) {
	t.Parallel()
	conn := connect(t, migratedDatabase(t))
	for _, c := range []struct {
		setting string
		want    int
	}{{"", 0}, {"on", 1}, {"off", 0}} {
		if c.setting != "" {
			exec(t, conn, "insert into outbox.setting values ('lock_keys', $1) on conflict (name) do update set value = excluded.value", c.setting)
		}
		tx := begin(t, conn)
		exec(t, conn, "select outbox.publish('t', 'x', key => 'k'), outbox.publish('t', 'x')")
		exec(t, conn, "select outbox.publish_json('t', '1', key => 'k')")
		if n := value[int](t, conn, keyLocks, pid(conn)); n != c.want {
			t.Errorf("setting %q: %d locks, want %d", c.setting, n, c.want)
		}
		commit(t, tx)
	}
	if _, err := conn.Exec(t.Context(), "update outbox.setting set value = 'yes' where name = 'lock_keys'"); state(err) != "23514" {
		t.Errorf("a value that means nothing: %v", err)
	}
}

// TestLockKeysApart: two outboxes of a database do not wait for each other, and a claim does not wait for publishers.
func TestLockKeysApart(t *testing.T) {
	t.Parallel()
	url := migratedDatabase(t)
	conn, other := connect(t, url), connect(t, url)
	if err := migrateUp(t.Context(), conn, "second"); err != nil {
		t.Fatal(err)
	}
	tx := begin(t, conn)
	publishWith(t, tx, newPublisher(t, &PublishConfig{LockKeys: true}), keyed("k")...)
	if value[bool](t, other, "select not outbox.try_claim_lock()") {
		t.Error("a publisher keeps claims waiting")
	}
	exec(t, other, "set lock_timeout = '20s'")
	publish(t, other, newPublisher(t, &PublishConfig{Schema: "second", LockKeys: true}), keyed("k")...)
	commit(t, tx)
}
