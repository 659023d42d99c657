package pgstore

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outboxrelay/outbox"
)

// TestLostAnswerIsGivenBackByTheSecondBeat: the answer of a claim is lost after its commit.
func TestLostAnswerIsGivenBackByTheSecondBeat(t *testing.T) {
	t.Parallel()
	url := migratedDatabase(t)
	conn := connect(t, url)
	store := newStore(t, url, nil)
	insert(t, conn, "a", 3, 0)
	first, second := newTestRelay(t, store, ">"), newTestRelay(t, store, ">")
	if ds := first.claim(t, 10); len(ds) != 3 {
		t.Fatalf("claimed %d of 3", len(ds))
	}
	first.known = nil // the relay never heard of it

	first.beat(t)
	if ds := second.claim(t, 10); ds != nil {
		t.Fatalf("after one beat a claim that may be on its way was given back: %s", payloads(ds))
	}
	first.beat(t)
	ds := second.claim(t, 10)
	if len(ds) != 3 {
		t.Fatalf("after two beats %d of 3 were claimable", len(ds))
	}
	for _, d := range ds {
		if d.Attempt != 1 {
			t.Errorf("attempt is %d: a lost answer was counted", d.Attempt)
		}
	}
	if n := value[int](t, conn, "select sum(lapses) from outbox.claim"); n != 0 {
		t.Errorf("%d lapses were counted", n)
	}
}

func TestNamedTokenIsKeptForEver(t *testing.T) {
	t.Parallel()
	url := migratedDatabase(t)
	store := newStore(t, url, nil)
	insert(t, connect(t, url), "a", 1, 0)
	first, second := newTestRelay(t, store, ">"), newTestRelay(t, store, ">")
	first.claim(t, 1)
	for range 5 {
		first.beat(t)
	}
	if ds := second.claim(t, 1); ds != nil {
		t.Errorf("a named claim was given back: %s", payloads(ds))
	}
}

// TestLateLowerSeqWaitsAndGoesFirst: an older message commits while a younger one of its key is in flight.
func TestLateLowerSeqWaitsAndGoesFirst(t *testing.T) {
	t.Parallel()
	url := migratedDatabase(t)
	conn, late := connect(t, url), connect(t, url)
	store := newStore(t, url, nil)
	first, second := newTestRelay(t, store, ">"), newTestRelay(t, store, ">")
	tx, err := late.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), "insert into outbox.message (id, topic, key, payload) values (gen_random_uuid(), 'a', 'k', 'late')"); err != nil {
		t.Fatal(err)
	}
	exec(t, conn, "insert into outbox.message (id, topic, key, payload) values (gen_random_uuid(), 'a', 'k', 'early'), (gen_random_uuid(), 'a', 'k', 'last')")
	inFlight := first.claim(t, 1)
	if payloads(inFlight) != "early " {
		t.Fatalf("claimed %s", payloads(inFlight))
	}
	commit(t, tx)
	for _, r := range []*testRelay{first, second} {
		if ds := r.claim(t, 10); ds != nil {
			t.Fatalf("claimed %s while the key was held", payloads(ds))
		}
	}
	first.settle(t, outbox.Delivered, inFlight...)
	store.signal.wake() // as the commit's notification does
	if ds := claimSoon(t, second, 10); payloads(ds) != "late last " {
		t.Errorf("claimed %s, want the late one and then the last", payloads(ds))
	}
}

// claimSoon claims until something comes: what is below the floor is found by pages of the sweep.
func claimSoon(t testing.TB, r *testRelay, limit int) []*outbox.Delivery {
	t.Helper()
	deadline := time.Now().Add(20 * time.Second)
	for time.Now().Before(deadline) {
		if ds := r.claim(t, limit); ds != nil {
			return ds
		}
		if _, err := r.store.Wait(t.Context(), r.store.signal.seen(), time.Now().Add(5*time.Millisecond)); err != nil {
			t.Fatal(err)
		}
	}
	t.Fatal("nothing could be claimed")
	return nil
}

// TestLateSettleUntilTakeover: a lease lapses; before a takeover the late settle succeeds, afterwards it is refused.
func TestLateSettleUntilTakeover(t *testing.T) {
	t.Parallel()
	for _, takenOver := range []bool{false, true} {
		url := migratedDatabase(t)
		conn := connect(t, url)
		store := newStore(t, url, nil)
		insert(t, conn, "a", 3, 0)
		first, second := newTestRelay(t, store, ">"), newTestRelay(t, store, "other")
		if takenOver {
			second = newTestRelay(t, store, ">")
		}
		ds := first.claim(t, 3)
		expire(t, conn, first)
		taken := second.claim(t, 1) // removes the lapsed relay, even when nothing here is for it
		want := outbox.SettledNow
		if takenOver {
			if len(taken) != 1 || taken[0].Attempt != 1 {
				t.Fatalf("took over %s", payloads(taken))
			}
			want = outbox.SettledFenced
		}
		for i, got := range first.settle(t, outbox.Delivered, ds...) {
			if got != want {
				t.Errorf("taken over %v: message %d was %v, want %v", takenOver, i, got, want)
			}
		}
		left := value[int](t, conn, "select count(*) from outbox.message")
		if takenOver != (left == 3) {
			t.Errorf("taken over %v: %d messages are left", takenOver, left)
		}
	}
}

// TestPartsOfAClaimSettleAtTheSameTime: two parts change the claim's row by expressions on its own columns, so that the second,
// which has waited for the first, does not bring back what that has taken from the lists.
func TestPartsOfAClaimSettleAtTheSameTime(t *testing.T) {
	url := migratedDatabase(t)
	conn, beside := connect(t, url), connect(t, url)
	store := newStore(t, url, nil)
	insert(t, conn, "a", 4, 0)
	r := newTestRelay(t, store, ">")
	ds := r.claim(t, 4)
	if len(ds) != 4 {
		t.Fatalf("claimed %d of 4", len(ds))
	}
	tx, err := beside.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	const settleOne = `select outbox.settle($1, array[$2::bigint], array[$3::uuid], array[$4::bigint],
		'{delivered}', '{1}', '{0}', '{""}', '{""}', false, null)`
	if _, err := tx.Exec(t.Context(), settleOne, r.info.ID, ds[0].Claim.ID, ds[0].Claim.Token, ds[0].Seq); err != nil {
		t.Fatal(err)
	}
	done := make(chan []outbox.Settled, 1)
	go func() { done <- r.settle(t, outbox.Delivered, ds[1]) }()
	waitUntil(t, "the second part waits", func() bool {
		return value[int](t, conn, "select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'") == 1
	})
	commit(t, tx)
	if got := <-done; got[0] != outbox.SettledNow {
		t.Errorf("the second part was %v", got[0])
	}
	left := value[[]int64](t, conn, "select seqs from outbox.claim")
	if want := []int64{ds[2].Seq, ds[3].Seq}; !slices.Equal(left, want) {
		t.Errorf("the claim lists %d, want %d", left, want)
	}
	if n := value[int](t, conn, "select cardinality(keys) from outbox.claim"); n != 2 {
		t.Errorf("and %d keys", n)
	}
}

// Takeover in portions: what stays listed belongs to nobody, and its lapse is counted once.
func TestPartialTakeoverCountsTheLapseOnce(t *testing.T) {
	t.Parallel()
	url := migratedDatabase(t)
	conn := connect(t, url)
	store := newStore(t, url, nil)
	insert(t, conn, "a", 5, 0)
	first, second := newTestRelay(t, store, ">"), newTestRelay(t, store, ">")
	first.claim(t, 5)
	expire(t, conn, first)
	for _, limit := range []int{2, 2, 1} {
		if ds := second.claim(t, limit); len(ds) != limit {
			t.Fatalf("took over %d of %d", len(ds), limit)
		}
	}
	for _, lapses := range values[int](t, conn, "select lapses from outbox.claim") {
		if lapses != 1 {
			t.Errorf("a claim has %d lapses", lapses)
		}
	}
}

// A lane of other topics leaves what it cannot handle listed, and does not look at it again.
func TestForeignLostClaimIsLeftForItsLane(t *testing.T) {
	t.Parallel()
	url := migratedDatabase(t)
	conn := connect(t, url)
	store := newStore(t, url, nil)
	insert(t, conn, "a", 2, 0)
	insert(t, conn, "b", 2, 0)
	first, other := newTestRelay(t, store, ">"), newTestRelay(t, store, "b")
	first.claim(t, 4)
	expire(t, conn, first)
	if ds := other.claim(t, 10); payloads(ds) != "1 2 " || ds[0].Topic != "b" {
		t.Fatalf("the lane of topic b took over %s", payloads(ds))
	}
	other.claim(t, 10)
	if lane := store.relay(other.info.ID).lane("lane"); len(lane.foreign) != 1 {
		t.Errorf("the lane remembers %v as foreign", lane.foreign)
	}
	own := newTestRelay(t, store, "a")
	if ds := own.claim(t, 10); payloads(ds) != "1 2 " {
		t.Errorf("the lane of topic a took over %s", payloads(ds))
	}
}

// TestRetryBesideASlowNeighbour: settling one message does not wait for its neighbours in the claim.
func TestRetryBesideASlowNeighbour(t *testing.T) {
	t.Parallel()
	url := migratedDatabase(t)
	store := newStore(t, url, nil)
	insert(t, connect(t, url), "a", 2, 0)
	relay := newTestRelay(t, store, ">")
	ds := relay.claim(t, 2)
	relay.settle(t, outbox.Retried, ds[0])
	again := claimSoon(t, relay, 2)
	if len(again) != 1 || again[0].Attempt != 2 || again[0].Seq != ds[0].Seq {
		t.Errorf("claimed %s", payloads(again))
	}
}

// TestFrozenClaimIsEnded: a client freezes with half of its claim sent, holding the claim lock.
func TestFrozenClaimIsEnded(t *testing.T) {
	t.Parallel()
	url := migratedDatabase(t)
	store := newStore(t, url, nil)
	insert(t, connect(t, url), "a", 1, 0)
	relay := newTestRelay(t, store, ">")
	frozen := freezeInClaim(t, url, relay.info.ID)

	begin := time.Now()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	batch, err := store.Claim(ctx, relay.query(1))
	if err != nil || len(batch.Claims) != 1 {
		t.Fatalf("claim beside a frozen one: %v, %v", batch, err)
	}
	if took := time.Since(begin); took < time.Second {
		t.Errorf("the claim took %v: the other connection did not hold the lock", took)
	}
	if _, err := frozen.Exec(t.Context(), "select 1"); err == nil {
		t.Error("the frozen connection still works")
	}
}

// freezeInClaim sends begin and a claim and neither a Sync nor anything else.
func freezeInClaim(t testing.TB, url string, relay outbox.ID) *pgx.Conn {
	t.Helper()
	conn := connect(t, url)
	pid := conn.PgConn().PID()
	pipeline := conn.PgConn().StartPipeline(t.Context())
	pipeline.SendQueryParams("begin isolation level read committed", nil, nil, nil, nil)
	pipeline.SendQueryParams(`select outbox.claim('`+relay.String()+`', 'nowhere', gen_random_uuid(), 1, 1, true, null,
		0, true, 1, false, '-infinity', 0, 500, '{}', '{}', '{}', 8, 0, 0, 0, 0, 0, '{}', false)`, nil, nil, nil, nil)
	pipeline.SendFlushRequest()
	if err := pipeline.Flush(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = pipeline.Close() })
	observer := connect(t, url)
	waitUntil(t, "the claim lock is held by a backend that waits for its client", func() bool {
		return value[bool](t, observer, `select exists (select from pg_locks l join pg_stat_activity a using (pid)
			where l.locktype = 'advisory' and l.granted and a.wait_event = 'ClientRead' and a.pid = $1)`, pid)
	})
	return conn
}

func waitUntil(t testing.TB, what string, condition func() bool) {
	t.Helper()
	waitWithin(t, 20*time.Second, what, condition)
}

func waitWithin(t testing.TB, limit time.Duration, what string, condition func() bool) {
	t.Helper()
	deadline := time.Now().Add(limit)
	for !condition() {
		if time.Now().After(deadline) {
			t.Fatalf("waited too long until %s", what)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func TestClaimGivesUpWithItsContext(t *testing.T) {
	t.Parallel()
	url := migratedDatabase(t)
	store := newStore(t, url, nil)
	relay := newTestRelay(t, store, ">")
	tx := begin(t, connect(t, url))
	if _, err := tx.Exec(t.Context(), "select outbox.claim_lock()"); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if _, err := store.Claim(ctx, relay.query(1)); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("claim while the lock is held: %v", err)
	}
}

// A lease that lies too far ahead, because the clock was stepped back, lapses when its relay does not move.
func TestLeaseAheadOfTheClockLapses(t *testing.T) {
	t.Parallel()
	url := migratedDatabase(t)
	conn := connect(t, url)
	store := newStore(t, url, nil)
	insert(t, conn, "a", 2, 0)
	dead, alive := newTestRelay(t, store, ">"), newTestRelay(t, store, ">")
	watcher := newTestRelay(t, store, ">")
	dead.claim(t, 1)
	stepBack(t, conn, time.Second, watcher)
	waitUntil(t, "the dead one has lapsed", func() bool {
		alive.beat(t)
		watcher.beat(t)
		return value[int](t, conn, "select count(*) from outbox.relay") == 2
	})
	ids := values[[16]byte](t, conn, "select id from outbox.relay")
	if !slices.Contains(ids, [16]byte(alive.info.ID)) || !slices.Contains(ids, [16]byte(watcher.info.ID)) {
		t.Errorf("%v are left, want the watcher and the one that beats", ids)
	}
	if ds := watcher.claim(t, 10); len(ds) != 2 {
		t.Errorf("claimed %s", payloads(ds))
	}
}

// stepBack is what a step of the database's clock by an hour makes of the leases, of that length, of all but one relay.
func stepBack(t *testing.T, conn *pgx.Conn, lease time.Duration, but *testRelay) {
	t.Helper()
	exec(t, conn, "update outbox.relay set lease = $1, lease_until = clock_timestamp() + interval '1 hour' where id <> $2", lease, but.info.ID)
}

// TestLeaseAheadIsWatchedForALease: a relay that sends two heartbeats at once, as after a claim that has failed, does not take another for
// dead that has not had its turn meanwhile.
func TestLeaseAheadIsWatchedForALease(t *testing.T) {
	url := migratedDatabase(t)
	conn := connect(t, url)
	store := newStore(t, url, nil)
	insert(t, conn, "a", 1, 0)
	alive, watcher := newTestRelay(t, store, ">"), newTestRelay(t, store, ">")
	alive.claim(t, 1)
	stepBack(t, conn, time.Minute, watcher)
	for range 5 {
		watcher.beat(t)
	}
	if n := value[int](t, conn, "select count(*) from outbox.relay"); n != 2 {
		t.Errorf("%d relays are left", n)
	}
	if ds := watcher.claim(t, 1); len(ds) != 0 {
		t.Errorf("claimed %s from a relay that lives", payloads(ds))
	}
	alive.beat(t) // it fails if the relay is gone
}

// A stopping relay that leaves a handler behind keeps that message until its lease lapses.
func TestStoppingKeepsWhatItNames(t *testing.T) {
	t.Parallel()
	url := migratedDatabase(t)
	conn := connect(t, url)
	store := newStore(t, url, nil)
	insert(t, conn, "a", 2, 0)
	stopping, other := newTestRelay(t, store, ">"), newTestRelay(t, store, ">")
	stopping.claim(t, 1)
	stopping.claim(t, 1)
	stopping.known = stopping.known[:1]
	stopping.info.Stopping = true
	stopping.beat(t)
	if ds := other.claim(t, 10); payloads(ds) != "2 " {
		t.Errorf("after the stop %s could be claimed, want the second", payloads(ds))
	}
	expire(t, conn, stopping)
	if ds := other.claim(t, 10); payloads(ds) != "1 " {
		t.Errorf("after the lease %s could be claimed, want the first", payloads(ds))
	}
}
