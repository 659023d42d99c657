package pgstore

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outboxrelay/outbox"
	"github.com/outboxrelay/outbox/internal/planted"
)

// TestSample: each state apart, and the oldest eligible message is neither blocked, nor scheduled, nor held.
func TestSample(t *testing.T) {
	t.Parallel()
	url := migratedDatabase(t)
	store, conn := newStore(t, url, nil), connect(t, url)
	relay := newTestRelay(t, store, "a")
	sample := func() *outbox.Sample {
		t.Helper()
		s, err := store.Sample(t.Context(), relay.info.ID)
		if err != nil || s == nil {
			t.Fatalf("sample %v, error %v", s, err)
		}
		return s
	}
	empty := sample()
	if empty.Depths != (outbox.Depths{}) || empty.OldestEligible != 0 || empty.HeldKeys.Messages != 0 || empty.Unhandled.Messages != 0 || empty.Relays != 1 || empty.Entered != 0 {
		t.Errorf("a new outbox: %+v", empty)
	}
	insert(t, conn, "a", 3, 1) // one key
	ds := relay.claim(t, 1)
	relay.settle(t, outbox.Retried, ds...)
	exec(t, conn, "update outbox.message set published_at = clock_timestamp() - interval '1 hour'")
	exec(t, conn, "update outbox.waiting set available_at = clock_timestamp() + interval '1 hour', first_failed_at = clock_timestamp() - interval '2 hours'")
	exec(t, conn, "insert into outbox.waiting (id, topic, payload, available_at) values (gen_random_uuid(), 'a', '', clock_timestamp() + interval '1 day')")
	s := sample()
	if s.Ready.Messages != 2 || s.Retrying.Messages != 1 || s.Scheduled.Messages != 1 || s.HeldKeys.Messages != 1 {
		t.Errorf("two behind a failed one, one scheduled: %+v", s)
	}
	if s.OldestEligible != 0 || s.HeldLongest < 2*time.Hour {
		t.Errorf("nothing is eligible, and a key is blocked for two hours: %v, %v", s.OldestEligible, s.HeldLongest)
	}
	insert(t, conn, "nobody", 1, 0)
	exec(t, conn, "update outbox.message set published_at = clock_timestamp() - interval '10 minutes' where topic = 'nobody'")
	if s = sample(); s.OldestEligible < 10*time.Minute || s.OldestEligible > 20*time.Minute || s.Unhandled.Messages != 1 {
		t.Errorf("one behind the blocked ones is ten minutes old and has no handler: %+v", s)
	}
	exec(t, conn, "update outbox.waiting set available_at = clock_timestamp() - interval '3 hours' where attempts > 0")
	if s = sample(); s.OldestEligible < 3*time.Hour {
		t.Errorf("the failed one is due for three hours: %v", s.OldestEligible)
	}
	relay.claim(t, 1) // it
	if s = sample(); s.OldestEligible > 20*time.Minute || s.InFlight != 1 || s.Entered != 5 {
		t.Errorf("the oldest is in flight: %+v", s)
	}
}

// TestSampleOfMany: above the bound there are estimates, and the front of a blocked backlog is not searched to its end.
func TestSampleOfMany(t *testing.T) {
	t.Parallel()
	url := migratedDatabase(t)
	store, conn := newStore(t, url, nil), connect(t, url)
	relay := newTestRelay(t, store, "a")
	insert(t, conn, "a", 300, 1)
	relay.settle(t, outbox.Retried, relay.claim(t, 1)...)
	exec(t, conn, "update outbox.waiting set available_at = 'epoch'::timestamptz + interval '100 years'")
	exec(t, conn, `insert into outbox.waiting (id, topic, payload, available_at, attempts)
		select gen_random_uuid(), 'a', '', clock_timestamp() + interval '1 day', g % 4 from generate_series(1, 200) g`)
	var s *outbox.Sample
	eventually(t, func() bool {
		exec(t, conn, "analyze") // what the session did before may be counted after it, a second time
		exec(t, conn, "select")  // a session of PostgreSQL 14 tells what it has counted with a later command
		err := store.inspect(t.Context(), func(tx pgx.Tx) (err error) {
			s, err = store.sample(t.Context(), tx, 100)
			return err
		})
		if err != nil {
			return false
		}
		waiting := s.Retrying.Messages + s.Scheduled.Messages // shares of 201, each rounded down
		return s.Ready.Estimated && s.Retrying.Estimated && s.Ready.Messages == 299 && (waiting == 200 || waiting == 201)
	})
	if s.Scheduled.Messages < 25 || s.Scheduled.Messages > 100 {
		t.Errorf("%d retrying and %d scheduled of 151 and 50", s.Retrying.Messages, s.Scheduled.Messages)
	}
	if s.OldestEligible == 0 {
		t.Error("no age although nobody knows that all are blocked")
	}
}

// TestOneRelaySamples: the oldest, but one that exports what it sees before one that does not.
func TestOneRelaySamples(t *testing.T) {
	t.Parallel()
	url := migratedDatabase(t)
	store := newStore(t, url, nil)
	register := func(samples bool) *testRelay {
		r := newTestRelay(t, store, ">") // registers
		r.info.ID, r.info.Beat, r.info.Samples = outbox.NewID(), 0, samples
		r.beat(t)
		return r
	}
	exec(t, connect(t, url), "delete from outbox.relay")
	samplers := func(rs ...*testRelay) (yes []int) {
		for i, r := range rs {
			s, err := store.Sample(t.Context(), r.info.ID)
			if err != nil {
				t.Fatal(err)
			}
			if s != nil {
				yes = append(yes, i)
			}
		}
		return yes
	}
	old, second, third := register(false), register(true), register(true)
	if got := samplers(old, second, third); len(got) != 1 || got[0] != 1 {
		t.Errorf("%v of three sample", got)
	}
	exec(t, connect(t, url), "update outbox.relay set lease_until = clock_timestamp() - interval '1 s' where id = $1", second.info.ID)
	if got := samplers(old, second, third); len(got) != 1 || got[0] != 2 {
		t.Errorf("%v sample when the second is gone", got)
	}
}

// scan is a node of a plan that was run.
type planNodeRun struct {
	Type     string        `json:"Node Type"`
	Relation string        `json:"Relation Name"`
	Rows     float64       `json:"Actual Rows"`
	Removed  float64       `json:"Rows Removed by Filter"`
	Loops    float64       `json:"Actual Loops"`
	Plans    []planNodeRun `json:"Plans"`
}

// checkBounded runs a query and finds the scans that read more than so many rows of the tables of messages.
func checkBounded(t testing.TB, conn *pgx.Conn, most float64, sql string, args ...any) {
	t.Helper()
	tx, err := conn.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(t.Context()) }()
	var text string
	if err := tx.QueryRow(t.Context(), "explain (analyze, format json) "+sql, append([]any{pgx.QueryExecModeExec}, args...)...).Scan(&text); err != nil {
		t.Fatal(err)
	}
	var plans []struct{ Plan planNodeRun }
	if err := json.Unmarshal([]byte(text), &plans); err != nil || len(plans) != 1 {
		t.Fatal(err, text)
	}
	scans := 0
	var walk func(n planNodeRun)
	walk = func(n planNodeRun) {
		if strings.Contains("message waiting dead", n.Relation) && n.Relation != "" {
			scans++
			if read := (n.Rows + n.Removed) * n.Loops; read > most {
				t.Errorf("%s of %s reads %.0f rows, at most %.0f are allowed", n.Type, n.Relation, read, most)
			}
		}
		for _, inner := range n.Plans {
			walk(inner)
		}
	}
	walk(plans[0].Plan)
	if scans == 0 {
		t.Errorf("the plan has no scan: %s", text)
	}
}

// TestSampleIsBounded: what a sample reads does not grow with the tables, whatever the statistics say.
func TestSampleIsBounded(t *testing.T) {
	t.Parallel()
	const bound, held = 300, 200
	url := migratedDatabase(t)
	store, conn := newStore(t, url, nil), connect(t, url)
	insert(t, conn, "a", 9000, 100)
	relay := newTestRelay(t, store, ">")
	relay.settle(t, outbox.Died, relay.claim(t, 1500)...)
	relay.settle(t, outbox.Retried, relay.claim(t, 1500)...)
	relay.claim(t, held)
	sql := render(sampleSQL, "outbox")
	for _, statistics := range []string{
		"analyze", "update pg_class set reltuples = 1e7, relpages = 5e5 where relname in ('message', 'waiting', 'dead')",
		"update pg_class set reltuples = 0, relpages = 0 where relname in ('message', 'waiting', 'dead')", "delete from pg_statistic",
	} {
		exec(t, conn, statistics)
		said := planted.Failures(t, func(t testing.TB) { checkBounded(t, conn, bound+1+held, sql, bound) })
		if said != "" {
			t.Errorf("after %s: %s", statistics, said)
		}
	}
	said := planted.Failures(t, func(t testing.TB) {
		checkBounded(t, conn, bound+1+held, fmt.Sprintf("select count(*) from (select from outbox.message limit %d) m where $1 > 0", 2*bound), bound)
	})
	if !strings.Contains(said, "reads 600 rows") {
		t.Errorf("a query that reads too much was found to be: %q", said)
	}
}
