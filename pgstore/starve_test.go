package pgstore

import (
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outboxrelay/outbox"
)

// scheduleDue inserts a row of waiting that became due some seconds ago.
func scheduleDue(t testing.TB, conn *pgx.Conn, topic, key, payload string, ago int, holds bool) {
	t.Helper()
	exec(t, conn, `insert into outbox.waiting (id, topic, key, payload, available_at, holds)
		values (gen_random_uuid(), $1, nullif($2, ''), convert_to($3, 'UTF8'), clock_timestamp() - $4::int * interval '1 second', $5)`,
		topic, key, payload, ago, holds)
}

// A head that failed became due after more followers than a claim looks at: they must not keep it out.
func TestDueHeadBehindItsFollowers(t *testing.T) {
	t.Parallel()
	for _, limit := range []int{1, 50} {
		url := migratedDatabase(t)
		conn := connect(t, url)
		store := newStore(t, url, nil)
		scheduleDue(t, conn, "a", "k", "head", 10, true)
		for range 60 {
			scheduleDue(t, conn, "a", "k", "follower", 20, false)
		}
		scheduleDue(t, conn, "a", "", "other", 5, false)
		relay := newTestRelay(t, store, ">")
		var got []string
		for range 80 {
			ds := relay.claim(t, limit)
			for _, d := range ds {
				got = append(got, string(d.Payload))
			}
			relay.settle(t, outbox.Delivered, ds...)
		}
		if len(got) != 62 || !slices.Contains(got, "other") || slices.Index(got, "head") > slices.Index(got, "follower") {
			t.Errorf("limit %d: %d of 62 delivered, head at %d, follower at %d, other at %d", limit, len(got),
				slices.Index(got, "head"), slices.Index(got, "follower"), slices.Index(got, "other"))
		}
	}
}

// Due rows whose head nobody may take now, because its topic is paused, leave room for the others.
func TestDueRowsBehindAPausedHead(t *testing.T) {
	t.Parallel()
	for name, head := range map[string]string{
		"ready":   `insert into outbox.message (id, topic, key, payload) values (gen_random_uuid(), 'paused', 'k', 'head')`,
		"waiting": `insert into outbox.waiting (id, topic, key, payload, available_at, holds) values (gen_random_uuid(), 'paused', 'k', 'head', clock_timestamp() - interval '1 minute', true)`,
	} {
		for _, limit := range []int{1, 50} {
			url := migratedDatabase(t)
			conn := connect(t, url)
			store := newStore(t, url, nil)
			exec(t, conn, head)
			exec(t, conn, "insert into outbox.control (scope, name) values ('topic', 'paused')")
			for range 60 {
				scheduleDue(t, conn, "a", "k", "blocked", 20, false)
			}
			scheduleDue(t, conn, "a", "", "free", 5, false)
			relay := newTestRelay(t, store, ">")
			got := ""
			for range 20 {
				ds := relay.claim(t, limit)
				got += payloads(ds)
				relay.settle(t, outbox.Delivered, ds...)
			}
			if got != "free " {
				t.Errorf("head %s, limit %d: claimed %q, want the free one", name, limit, got)
			}
		}
	}
}

// A message that was committed late is found although the lane is never idle.
func TestLateCommitBesideABacklog(t *testing.T) {
	if testing.Short() {
		t.Skip("inserts many rows")
	}
	t.Parallel()
	url := migratedDatabase(t)
	conn := connect(t, url)
	store := newStore(t, url, nil)
	late := begin(t, connect(t, url))
	if _, err := late.Exec(t.Context(), "insert into outbox.message (id, topic, payload) values (gen_random_uuid(), 'a', 'late')"); err != nil {
		t.Fatal(err)
	}
	insert(t, conn, "a", 100_000, 0)
	relay := newTestRelay(t, store, ">")
	relay.settle(t, outbox.Delivered, relay.claim(t, 50)...)
	commit(t, late)
	deadline := time.Now().Add(20 * time.Second)
	for time.Now().Before(deadline) {
		ds := relay.claim(t, 50)
		if len(ds) == 0 {
			t.Fatal("the backlog is drained: the machine is too fast for this test")
		}
		if slices.ContainsFunc(ds, func(d *outbox.Delivery) bool { return string(d.Payload) == "late" }) {
			return
		}
		relay.settle(t, outbox.Delivered, ds...)
		time.Sleep(5 * time.Millisecond) // a handler's
	}
	t.Error("the late message was not claimed while there was a backlog")
}

// TestClaimBesideManyDueRows: a hundred thousand rows, foreign or behind one head, do not make claims long.
func TestClaimBesideManyDueRows(t *testing.T) {
	if testing.Short() {
		t.Skip("inserts many rows")
	}
	for name, sql := range map[string]string{
		"foreign": `insert into outbox.waiting (id, topic, payload, available_at)
			select gen_random_uuid(), 'foreign', 'x', clock_timestamp() - interval '1 hour' from generate_series(1, 100000)`,
		"behind a head": `insert into outbox.waiting (id, topic, key, payload, holds, available_at)
			select gen_random_uuid(), 'a', 'k', 'x', true, clock_timestamp() + case g when 1 then 1 else -1 end * interval '1 hour'
			from generate_series(1, 100000) g`,
	} {
		t.Run(name, func(t *testing.T) {
			url := migratedDatabase(t)
			conn := connect(t, url)
			exec(t, conn, sql)
			insert(t, conn, "a", 100, 0)
			relay := newTestRelay(t, newStore(t, url, nil), "a")
			var took []time.Duration
			for range 11 {
				begin := time.Now()
				if _, err := relay.store.Claim(t.Context(), relay.query(5)); err != nil {
					t.Fatal(err)
				}
				took = append(took, time.Since(begin))
			}
			slices.Sort(took)
			if median := took[len(took)/2]; median > 150*time.Millisecond {
				t.Errorf("a claim takes %v", median)
			}
		})
	}
}

// With one slot, due and ready messages take turns.
func TestReadyBesideDueWithOneSlot(t *testing.T) {
	t.Parallel()
	url := migratedDatabase(t)
	conn := connect(t, url)
	exec(t, conn, `insert into outbox.waiting (id, topic, payload, available_at)
		select gen_random_uuid(), 'due', 'x', clock_timestamp() - interval '1 hour' from generate_series(1, 100)`)
	insert(t, conn, "ready", 100, 0)
	relay := newTestRelay(t, newStore(t, url, nil), ">")
	topics := map[string]int{}
	for range 20 {
		ds := relay.claim(t, 1)
		topics[ds[0].Topic]++
		relay.settle(t, outbox.Delivered, ds...)
	}
	if topics["due"] < 8 || topics["ready"] < 8 {
		t.Errorf("claimed %v", topics)
	}
}
