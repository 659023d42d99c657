package pgstore

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outboxrelay/outbox"
)

// newFollower makes a relay on a store with the WAL engine whose one lane follows the stream.
func newFollower(t testing.TB, url string, cfg *Config) *testRelay {
	t.Helper()
	if cfg == nil {
		cfg = &Config{Notify: NotifyOff}
	}
	cfg.Engine = EngineWAL
	r := newTestRelay(t, newStore(t, url, cfg), ">")
	runStream(t, r.store)
	r.follow(t)
	return r
}

// runStream runs what a Relay runs for a store, until the test ends.
func runStream(t testing.TB, s *Store) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		s.Listen(ctx)
	}()
	t.Cleanup(func() { cancel(); <-ended })
}

func (r *testRelay) lane() *lane { return r.store.relay(r.info.ID).lane("lane") }

func (r *testRelay) feedState() feedState {
	l := r.lane()
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.feed.state
}

// follow claims until the lane follows; there must be nothing to claim.
func (r *testRelay) follow(t testing.TB) {
	t.Helper()
	await(t, "the lane follows the stream", func() bool {
		if ds := r.claim(t, 100); ds != nil {
			t.Fatalf("claimed %s", payloads(ds))
		}
		return r.feedState() == feedFollowing
	})
}

// claimAll claims until there are n messages.
func (r *testRelay) claimAll(t testing.TB, n int) (ds []*outbox.Delivery) {
	t.Helper()
	await(t, "the messages are claimed", func() bool {
		ds = append(ds, r.claim(t, 100)...)
		return len(ds) >= n
	})
	return ds
}

func await(t testing.TB, what string, done func() bool) {
	t.Helper()
	const patience = 20 * time.Second
	for begin := time.Now(); !done(); time.Sleep(2 * time.Millisecond) {
		if time.Since(begin) > patience {
			t.Fatalf("after %v it is not so that %s", patience, what)
		}
	}
}

func TestStreamBringsMessages(t *testing.T) {
	t.Parallel()
	url := migratedDatabase(t)
	conn := connect(t, url)
	r := newFollower(t, url, nil)
	insert(t, conn, "a", 5, 0)
	ds := r.claimAll(t, 5)
	if payloads(ds) != "1 2 3 4 5 " {
		t.Errorf("claimed %s", payloads(ds))
	}
	r.settle(t, outbox.Delivered, ds...)
	if n := value[int](t, conn, "select count(*) from outbox.message"); n != 0 {
		t.Errorf("%d messages are left", n)
	}
}

// Two outboxes in one database stream beside each other, each its own.
func TestStreamOfAnotherSchema(t *testing.T) {
	t.Parallel()
	const schema = "other"
	url := migratedDatabase(t)
	conn := connect(t, url)
	if err := migrateUp(t.Context(), conn, schema); err != nil {
		t.Fatal(err)
	}
	r := newFollower(t, url, nil)
	other := newFollower(t, url, &Config{Schema: schema, Notify: NotifyOff})
	exec(t, conn, "insert into other.message (id, topic, payload) values (gen_random_uuid(), 'a', 'theirs')")
	insert(t, conn, "a", 1, 0)
	if ds := other.claimAll(t, 1); payloads(ds) != "theirs " {
		t.Errorf("claimed %s", payloads(ds))
	}
	if ds := r.claimAll(t, 1); payloads(ds) != "1 " {
		t.Errorf("claimed %s", payloads(ds))
	}
	if r.feedState() != feedFollowing || other.feedState() != feedFollowing {
		t.Error("one of them does not follow the stream")
	}
}

// What the stream brings is what a fetch finds.
func TestStreamedIsFetched(t *testing.T) {
	t.Parallel()
	url := migratedDatabase(t)
	conn := connect(t, url)
	follower := newFollower(t, url, nil)
	for i, columns := range []string{
		"'', '{}', null, null, null, null",
		`'\x00ff', '{"content-type": "text/plain", "size": "ü"}', 'd', 0, interval '1 year 14 months 3 days 4.5 seconds', clock_timestamp() + interval '1 hour'`,
		`repeat('x', 300000)::bytea, '{"a": "b"}', 'e', 7, interval '300 years', '9999-12-31'`,
		`'p', '[1]', null, 3, interval '-1 day 30 hours', clock_timestamp() - interval '1 hour'`,
	} {
		if strings.Contains(columns, "[1]") {
			exec(t, conn, "alter table outbox.message drop constraint message_headers")
		}
		exec(t, conn, fmt.Sprintf(`insert into outbox.message (id, topic, key, payload, headers, dedup_key, max_attempts, broker_ttl, expires_at)
			select gen_random_uuid(), 't.%d', nullif('k%d', 'k0'), %s`, i, i, columns))
	}
	const n = 4
	streamed := follower.claimAll(t, n)
	if n := follower.lane().floor; n < streamed[len(streamed)-1].Seq {
		t.Errorf("the floor is %d: these were no streamed messages", n)
	}
	follower.settle(t, outbox.GivenBack, streamed...)
	fetched := newTestRelay(t, newStore(t, url, nil), ">").claimAll(t, n)
	for i, d := range streamed {
		f := fetched[i]
		if !slices.Equal(d.Payload, f.Payload) || (d.Unreadable == nil) != (f.Unreadable == nil) || !d.PublishedAt.Equal(f.PublishedAt) ||
			fmt.Sprint(d.Headers) != fmt.Sprint(f.Headers) || d.ContentType != f.ContentType {
			t.Errorf("message %d is %+v by the stream and %+v by a fetch", i, d, f)
		}
		if apart := d.Deadline.Sub(f.Deadline).Abs(); apart > 10*time.Second || d.Deadline.IsZero() != f.Deadline.IsZero() {
			t.Errorf("message %d: the deadlines are %v apart", i, apart)
		}
		if d.Seq != f.Seq || d.ID != f.ID || d.Topic != f.Topic || d.Key != f.Key || d.DedupKey != f.DedupKey ||
			d.MaxAttempts != f.MaxAttempts || d.BrokerTTL != f.BrokerTTL || d.Attempt != f.Attempt || d.Generation != f.Generation {
			t.Errorf("message %d is %+v by the stream and %+v by a fetch", i, d, f)
		}
	}
}

// The order of a key holds for what was streamed while it was held, and the key goes on by index.
func TestStreamKeepsOrder(t *testing.T) {
	t.Parallel()
	url := migratedDatabase(t)
	conn, late := connect(t, url), connect(t, url)
	r := newFollower(t, url, nil)
	tx, err := late.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	one := "insert into outbox.message (id, topic, key, payload) values (gen_random_uuid(), 'a', 'k', $1::text::bytea)"
	if _, err := tx.Exec(t.Context(), one, "late"); err != nil {
		t.Fatal(err)
	}
	exec(t, conn, one, "early")
	held := r.claimAll(t, 1)
	exec(t, conn, one, "next")
	commit(t, tx)
	exec(t, conn, "insert into outbox.message (id, topic, payload) values (gen_random_uuid(), 'a', 'free')")
	if ds := r.claimAll(t, 1); payloads(ds) != "free " {
		t.Fatalf("claimed %s while the key was held", payloads(ds))
	}
	r.settle(t, outbox.Delivered, held...)
	if ds := r.claimAll(t, 2); payloads(ds) != "late next " {
		t.Errorf("claimed %s, want the late one and then the next", payloads(ds))
	}
}

// A message that was ended before the stream brought it is not delivered, and neither is one that others hold.
func TestStreamOffersWhatIsGone(t *testing.T) {
	t.Parallel()
	url := migratedDatabase(t)
	conn := connect(t, url)
	r := newFollower(t, url, nil)
	other := newTestRelay(t, newStore(t, url, nil), ">")
	insert(t, conn, "a", 6, 0)
	first := other.claimAll(t, 6)
	other.settle(t, outbox.Delivered, first[0])
	other.settle(t, outbox.Retried, first[1])
	other.settle(t, outbox.Died, first[2])
	await(t, "the stream has brought them", func() bool { return r.lane().feedReport("").Buffered == 6 })
	if ds := r.claim(t, 10); len(ds) != 1 || ds[0].Seq != first[1].Seq || ds[0].Attempt != 2 {
		t.Errorf("claimed %s beside a relay that holds or has ended all but the retried one", payloads(ds))
	}
	if n := r.lane().feedReport("").Buffered; n != 0 {
		t.Errorf("%d are still in the buffer", n)
	}
}

// More than the buffer holds, in one transaction or many, is found by windows, and then the lane follows again.
func TestStreamOverflows(t *testing.T) {
	t.Parallel()
	url := migratedDatabase(t)
	conn := connect(t, url)
	r := newFollower(t, url, nil)
	for why, statements := range map[string]int{whyLarge: 1, whyFull: 5} {
		const messages = 3 * maxStreamed
		began := r.lane().feedReport("").Since
		for range statements {
			insert(t, conn, "a", messages/statements, 7)
		}
		await(t, "the lane has to catch up", func() bool { return r.feedState() == feedBehind })
		seen := map[int64]bool{}
		last := map[string]int64{}
		for len(seen) < messages {
			ds := r.claimAll(t, 1)
			for _, d := range ds {
				if seen[d.Seq] {
					t.Fatalf("message %d was claimed twice", d.Seq)
				}
				if last[d.Key] > d.Seq {
					t.Fatalf("message %d of key %s was claimed after %d", d.Seq, d.Key, last[d.Key])
				}
				seen[d.Seq], last[d.Key] = true, d.Seq
			}
			r.settle(t, outbox.Delivered, ds...)
		}
		r.follow(t)
		if report := r.lane().feedReport(""); report.Why != why || !report.Since.After(began) {
			t.Errorf("the lane is %+v, want that it had to catch up because %s", report, why)
		}
		insert(t, conn, "a", 1, 0)
		r.settle(t, outbox.Delivered, r.claimAll(t, 1)...)
		if r.feedState() != feedFollowing {
			t.Error("the lane does not follow any more")
		}
	}
}

// A transaction that is streamed while it runs counts when it commits, without what its subtransactions took back.
func TestStreamsRunningTransactions(t *testing.T) {
	t.Parallel()
	url := migratedDatabase(t)
	conn := connect(t, url)
	exec(t, conn, "alter database "+pgx.Identifier{conn.Config().Database}.Sanitize()+" set logical_decoding_work_mem = '64kB'")
	r := newFollower(t, url, nil)
	for _, end := range []string{"rollback", "commit"} {
		exec(t, conn, "begin")
		insert(t, conn, "kept", 2000, 0)
		exec(t, conn, "savepoint s")
		insert(t, conn, "undone", 2000, 0)
		exec(t, conn, "rollback to s")
		insert(t, conn, "kept", 100, 0)
		if ds := r.claim(t, 10); ds != nil {
			t.Fatalf("claimed %s of a transaction that runs", payloads(ds))
		}
		exec(t, conn, end)
	}
	ds := r.claimAll(t, 2100)
	for _, d := range ds {
		if d.Topic != "kept" {
			t.Fatalf("claimed a message that was taken back")
		}
	}
	if len(ds) != 2100 {
		t.Errorf("claimed %d of 2100", len(ds))
	}
	await(t, "the server tells of transactions that it streamed", func() bool {
		return value[bool](t, conn, `select coalesce(bool_or(s.stream_txns > 0), false) from pg_stat_replication_slots s
			join pg_replication_slots r using (slot_name) where r.database = current_database()`)
	})
	if r.feedState() != feedFollowing {
		t.Error("the lane had to catch up")
	}
}

// A paused topic makes the lane poll, and it follows again afterwards; nothing is lost on the way.
func TestStreamBesidePause(t *testing.T) {
	t.Parallel()
	url := migratedDatabase(t)
	conn := connect(t, url)
	r := newFollower(t, url, nil)
	exec(t, conn, "insert into outbox.control (scope, name) values ('topic', 'paused')")
	insert(t, conn, "paused", 10, 0)
	insert(t, conn, "a", 10, 0)
	if ds := r.claimAll(t, 10); len(ds) != 10 || ds[0].Topic != "a" {
		t.Errorf("claimed %s", payloads(ds))
	}
	if r.feedState() != feedShut {
		t.Error("the lane follows beside a paused topic")
	}
	exec(t, conn, "delete from outbox.control")
	if ds := r.claimAll(t, 10); len(ds) != 10 || ds[0].Topic != "paused" {
		t.Errorf("claimed %s", payloads(ds))
	}
	r.follow(t)
}

// When the relay that streams ends, another one takes over, and what the first was offered and had not asked for is
// claimed by it, or by the first.
func TestStreamHandsOver(t *testing.T) {
	t.Parallel()
	url := migratedDatabase(t)
	conn := connect(t, url)
	first := newFollower(t, url, nil)
	second := newTestRelay(t, newStore(t, url, &Config{Engine: EngineWAL, Notify: NotifyOff}), ">")
	runStream(t, second.store)
	await(t, "the second stands by", func() bool {
		second.beat(t)
		return value[string](t, conn, "select stream ->> 'state' from outbox.relay where id = $1", second.info.ID) == stateStandingBy
	})
	if n := value[int](t, conn, "select count(*) from outbox.relay where streaming"); n != 1 {
		t.Errorf("%d relays stream", n)
	}
	insert(t, conn, "a", 10, 3)
	await(t, "the stream has brought them", func() bool { return first.lane().feedReport("").Buffered == 10 })
	exec(t, conn, `select pg_terminate_backend(active_pid) from pg_replication_slots where database = current_database()`)
	await(t, "the first polls", func() bool { return first.feedState() != feedFollowing })
	if ds := first.claimAll(t, 10); len(ds) != 10 {
		t.Errorf("claimed %d of 10", len(ds))
	}
	await(t, "one of them follows", func() bool {
		first.claim(t, 1)
		second.claim(t, 1)
		return first.feedState() == feedFollowing || second.feedState() == feedFollowing
	})
	if n := value[int](t, conn, "select count(*) from pg_replication_slots where database = current_database()"); n != 1 {
		t.Errorf("there are %d slots", n)
	}
}

// A relay that ends leaves no slot, and the schema no publication.
func TestStreamLeavesNothing(t *testing.T) {
	t.Parallel()
	url := migratedDatabase(t)
	conn := connect(t, url)
	store := newStore(t, url, &Config{Engine: EngineWAL, Notify: NotifyOff})
	r := newTestRelay(t, store, ">")
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { store.Listen(ctx); close(ended) }()
	r.follow(t)
	stop()
	<-ended
	await(t, "the slot is gone", func() bool {
		return value[int](t, conn, "select count(*) from pg_replication_slots where database = current_database()") == 0
	})
	if n := value[int](t, conn, "select count(*) from outbox.relay where streaming"); n != 0 {
		t.Errorf("%d relays say that they stream", n)
	}
	if err := migrateDown(t.Context(), conn, DefaultSchema, 0); err != nil {
		t.Fatal(err)
	}
	if n := value[int](t, conn, "select count(*) from pg_publication"); n != 0 {
		t.Errorf("%d publications are left", n)
	}
}

func TestSnapshotSees(t *testing.T) {
	s, err := parseSnapshot("4294967290:4294967300:4294967292,4294967298")
	if err != nil {
		t.Fatal(err)
	}
	for xid, want := range map[uint32]bool{
		4294967289: true, 4294967290: true, 4294967292: false, 4294967295: true, 0: true, 1: true, 2: false, 3: true, 4: false, 100: false,
	} {
		if s.sees(xid) != want {
			t.Errorf("sees(%d) is %v", xid, !want)
		}
	}
	for _, text := range []string{"", "1:2", "a:2:", "1:b:", "1:5:x"} {
		if _, err := parseSnapshot(text); err == nil {
			t.Errorf("%q was read", text)
		}
	}
}
