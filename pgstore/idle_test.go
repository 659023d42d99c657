package pgstore

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/outboxrelay/outbox"
)

// calls counts the claim calls of a lane that always claims at once when it is told that there is more, and
// otherwise rests as long as a relay's lane does after a while.
func callsIn(t testing.TB, r *testRelay, d time.Duration) (calls int) {
	t.Helper()
	const rest = 100 * time.Millisecond
	for end := time.Now().Add(d); time.Now().Before(end); {
		batch, err := r.store.Claim(t.Context(), r.query(50))
		if err != nil {
			t.Fatal(err)
		}
		calls++
		if len(batch.Claims) > 0 {
			t.Fatalf("claimed %d messages", len(batch.Claims[0].Deliveries))
		}
		if batch.More {
			continue
		}
		pause := rest
		if batch.NextDue > 0 {
			pause = min(pause, batch.NextDue)
		}
		time.Sleep(pause)
	}
	return calls
}

// A lane that can do nothing asks seldom, whatever lies around.
func TestNothingToDoAsksSeldom(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	t.Parallel()
	for name, setup := range map[string][]string{
		"paused topic": {`insert into outbox.message (id, topic, payload) select gen_random_uuid(), 'a', 'x' from generate_series(1, 20000)`,
			`insert into outbox.control (scope, name) values ('topic', 'a')`},
		"paused destination": {`insert into outbox.message (id, topic, payload) select gen_random_uuid(), 'a', 'x' from generate_series(1, 20000)`,
			`insert into outbox.control (scope, name) values ('destination', 'lane')`},
		"paused keys": {`insert into outbox.message (id, topic, key, payload) select gen_random_uuid(), 'a', 'k' || g, 'x' from generate_series(1, 5000) g`,
			`insert into outbox.control (scope, name) values ('topic', 'a')`},
		"blocked keys": {`insert into outbox.waiting (id, topic, key, payload, holds, available_at) select gen_random_uuid(), 'a', 'k' || g, 'x', true, clock_timestamp() + interval '1 hour' from generate_series(1, 5000) g`,
			`insert into outbox.message (id, topic, key, payload) select gen_random_uuid(), 'a', 'k' || g, 'x' from generate_series(1, 5000) g`},
		"blocked and due": {`insert into outbox.waiting (id, topic, key, payload, holds, available_at) select gen_random_uuid(), 'a', 'k' || g, 'x', true, clock_timestamp() + interval '1 hour' from generate_series(1, 500) g`,
			`insert into outbox.waiting (id, topic, key, payload, holds, available_at) select gen_random_uuid(), 'a', 'k' || g, 'x', true, clock_timestamp() from generate_series(1, 500) g`},
		"foreign schedule": {`insert into outbox.waiting (id, topic, payload, available_at) select gen_random_uuid(), 'foreign', 'x', clock_timestamp() + g * interval '1 millisecond' from generate_series(1, 20000) g`},
		"foreign topics":   {`insert into outbox.message (id, topic, key, payload) select gen_random_uuid(), 'foreign', 'k' || g, 'x' from generate_series(1, 50000) g`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := migratedDatabase(t)
			conn := connect(t, url)
			for _, sql := range setup {
				exec(t, conn, sql)
			}
			exec(t, conn, "analyze")
			relay := newTestRelay(t, newStore(t, url, nil), "a")
			warm := callsIn(t, relay, 2*time.Second)
			calls := callsIn(t, relay, 2*time.Second)
			t.Logf("%d calls, then %d", warm, calls)
			if calls > 80 {
				t.Errorf("%d claim calls in 2 s, though there is nothing to do", calls)
			}
		})
	}
}

// After a pause everything that was paused is found at once, also beside claims whose windows passed it.
func TestResumeBesideLiveClaims(t *testing.T) {
	t.Parallel()
	for _, pause := range []string{
		"insert into outbox.control (scope, name) values ('topic', 'p')",
		"insert into outbox.control (scope, name) values ('destination', 'lane')",
	} {
		url := migratedDatabase(t)
		conn := connect(t, url)
		store := newStore(t, url, nil)
		insert(t, conn, "p", 200, 0)
		insert(t, conn, "a", 1, 0)
		exec(t, conn, pause)
		relay := newTestRelay(t, store, ">")
		relay.claim(t, 1)
		insert(t, conn, "a", 1, 0)
		relay.claim(t, 1)
		exec(t, conn, "delete from outbox.control")
		insert(t, conn, "a", 1000, 0)
		var topics []string
		for range 8 {
			for _, d := range relay.claim(t, 50) {
				topics = append(topics, d.Topic)
			}
		}
		if n := len(slices.DeleteFunc(topics, func(topic string) bool { return topic != "p" })); n != 200 {
			t.Errorf("%s: %d of the 200 paused messages were claimed among the first 400", pause, n)
		}
	}
}

// Messages given back in many claims, a key's in several, come back whatever the number of claims.
func TestManyLostClaimsOfTheSameKeys(t *testing.T) {
	t.Parallel()
	for _, keys := range []int{4, 8, 16, 20} {
		url := migratedDatabase(t)
		conn := connect(t, url)
		store := newStore(t, url, nil)
		relay := newTestRelay(t, store, ">")
		var ds []*outbox.Delivery
		for k := range keys {
			exec(t, conn, `insert into outbox.message (id, topic, key, payload) select gen_random_uuid(), 'a', $1, $1::text::bytea from generate_series(1, 2)`, fmt.Sprint("k", k))
			ds = append(ds, relay.claim(t, 2)...)
		}
		if len(ds) != 2*keys {
			t.Fatalf("claimed %d of %d", len(ds), 2*keys)
		}
		for _, half := range []int{1, 0} {
			for k := range keys {
				relay.settle(t, outbox.GivenBack, ds[2*k+half])
			}
		}
		heir := newTestRelay(t, store, ">")
		got := 0
		for range 100 {
			again := heir.claim(t, 10)
			got += len(again)
			heir.settle(t, outbox.Delivered, again...)
		}
		if got != 2*keys {
			t.Errorf("%d of %d messages came back", got, 2*keys)
		}
	}
}
