package pgstore

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outboxrelay/outbox"
)

// forgetClaims is what a crash of the database may do: claims commit asynchronously, so their rows and the
// numbers that they drew are gone, and the numbers are drawn again.
func forgetClaims(t testing.TB, conn *pgx.Conn) {
	t.Helper()
	exec(t, conn, `select pg_terminate_backend(pid) from pg_stat_activity
		where datname = current_database() and pid <> pg_backend_pid() and backend_type = 'client backend'`)
	waitUntil(t, "the connections are gone", func() bool {
		return value[int](t, conn, `select count(*) from pg_stat_activity
			where datname = current_database() and pid <> pg_backend_pid() and backend_type = 'client backend'`) == 0
	})
	exec(t, conn, "delete from outbox.claim")
	exec(t, conn, "alter table outbox.claim alter id restart")
}

// claimAgain claims until the broken connections have been noticed.
func claimAgain(t testing.TB, r *testRelay, limit int) []*outbox.Delivery {
	t.Helper()
	for range 10 {
		if _, err := r.store.Wait(t.Context(), 0, time.Now()); err != nil {
			t.Fatal(err)
		}
		batch, err := r.store.Claim(t.Context(), r.query(limit))
		if err == nil {
			var ds []*outbox.Delivery
			for _, c := range batch.Claims {
				ds = append(ds, c.Deliveries...)
			}
			return ds
		}
	}
	t.Fatal("the connections stay broken")
	return nil
}

// Results of a claim that the database has forgotten must not settle the claim that got its number.
func TestResultsOfAForgottenClaim(t *testing.T) {
	t.Parallel()
	for _, delivered := range []int{5, 2} {
		url := migratedDatabase(t)
		conn := connect(t, url)
		store := newStore(t, url, nil)
		insert(t, conn, "a", 10, 0)
		relay := newTestRelay(t, store, ">")
		forgotten := relay.claim(t, 5)
		forgetClaims(t, conn)
		again := claimAgain(t, relay, 5)
		if len(again) != 5 || again[0].Claim.ID != forgotten[0].Claim.ID || again[0].Seq == forgotten[0].Seq {
			t.Fatalf("claimed %s: not what this test is about", payloads(again))
		}
		relay.settle(t, outbox.Delivered, forgotten[:delivered]...)
		relay.settle(t, outbox.Delivered, again[:5-delivered]...)
		if n := value[int](t, conn, "select count(*) from outbox.message where seq >= $1", again[0].Seq); n != delivered {
			t.Errorf("%d of %d messages that were not delivered are there", n, delivered)
		}
		relay.settle(t, outbox.Delivered, again[5-delivered:]...)
		if n := value[int](t, conn, "select count(*) from outbox.claim"); n != 0 {
			t.Errorf("%d claims are left", n)
		}
	}
}

// Claims that got low numbers after a crash are seen by those who had seen higher ones.
func TestClaimsNumberedAnew(t *testing.T) {
	t.Parallel()
	url := migratedDatabase(t)
	conn := connect(t, url)
	first, second := newTestRelay(t, newStore(t, url, nil), ">"), newTestRelay(t, newStore(t, url, nil), ">")
	insert(t, conn, "a", 20, 0)
	for range 3 {
		first.settle(t, outbox.Delivered, first.claim(t, 1)...)
	}
	first.claim(t, 1)
	second.claim(t, 1)
	forgetClaims(t, conn)
	held := map[int64]bool{}
	for _, d := range claimAgain(t, first, 5) {
		held[d.Seq] = true
	}
	// what a lane remembers of its own windows does not matter here
	second.store.relay(second.info.ID).lane("lane").floor = 0
	for range 2 {
		for _, d := range claimAgain(t, second, 5) {
			if held[d.Seq] {
				t.Errorf("two relays hold message %d", d.Seq)
			}
			held[d.Seq] = true
		}
	}
}

// What one backend has seen of the ledger is nothing to another one: behind a pooler it may be one of after a crash.
func TestLedgerOfAnotherBackend(t *testing.T) {
	url := migratedDatabase(t)
	conn := connect(t, url)
	insert(t, conn, "a", 3, 0)
	store := newStore(t, url, nil)
	newTestRelay(t, store, ">").claim(t, 3)
	other := newTestRelay(t, store, ">")
	claim := func(backend string) int {
		return value[int](t, conn, `select claimed from outbox.claim($1, 'lane', gen_random_uuid(), 10, 1000000, true, null,
			0, false, 10, false, '-infinity', 0, 10, '{}', '{}', '{}', 8, 0, 1000, `+backend+`, 0, 0, '{}', true)`, other.info.ID)
	}
	if n := claim("0"); n != 0 {
		t.Errorf("%d messages that another relay holds were claimed", n)
	}
	if n := claim("pg_backend_pid()"); n != 3 {
		t.Errorf("the backend's own knowledge made no difference: claimed %d", n)
	}
}
