package pgstore

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/outboxrelay/outbox/internal/planted"
)

// sampledRows is how many ready messages TestSampleOfMillions looks at; make life sets more.
func sampledRows(t *testing.T) int {
	t.Helper()
	text := os.Getenv("OUTBOX_TEST_SAMPLED")
	if text == "" {
		return 30_000
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatalf("OUTBOX_TEST_SAMPLED %q: %v", text, err)
	}
	return n
}

// TestSampleOfMillions: a look reads as much of millions of messages as of thousands, also of those that wait for their time and
// when all are blocked.
func TestSampleOfMillions(t *testing.T) {
	if testing.Short() {
		t.Skip("inserts many rows")
	}
	t.Parallel()
	rows := sampledRows(t)
	url := migratedDatabase(t)
	store, conn := newStore(t, url, nil), connect(t, url)
	relay := newTestRelay(t, store, ">")
	look := func(what string) {
		t.Helper()
		relay.beat(t)
		var took []time.Duration
		for range 7 {
			begin := time.Now()
			if s, err := store.Sample(t.Context(), relay.info.ID); err != nil || s == nil {
				t.Fatalf("%s: sample %v, error %v", what, s, err)
			}
			took = append(took, time.Since(begin))
		}
		slices.Sort(took)
		t.Logf("%-60s median %6.1f ms, longest %6.1f ms", what, took[3].Seconds()*1000, took[6].Seconds()*1000)
	}
	bounded := func(what string) {
		t.Helper()
		for _, q := range []struct {
			name, sql string
			most      float64
			args      []any
		}{
			{"sample", sampleSQL, sampleBound + 1, []any{sampleBound}},
			{"topics", statusTopicsSQL, 4 * sampleBound, nil}, // a table that is not much larger is read and sorted
			{"keys", statusKeysSQL, 4 * countBound, nil},      // half of what waits holds nothing
			{"status", statusSQL, 1, nil},
		} {
			said := planted.Failures(t, func(t testing.TB) { checkBounded(t, conn, q.most, render(q.sql, DefaultSchema), q.args...) })
			if said != "" {
				t.Errorf("%s, %s: %s", what, q.name, said)
			}
		}
	}
	insert(t, conn, "a", 1000, 100)
	look("1,000 ready")
	exec(t, conn, "truncate outbox.message")
	insert(t, conn, "a", rows, 1000)
	look(fmt.Sprintf("%d ready, never analyzed", rows))
	bounded("never analyzed")
	for _, sql := range []string{
		`insert into outbox.waiting (id, topic, key, payload, available_at, attempts, holds)
			select gen_random_uuid(), 'a', 'w' || g, '', clock_timestamp() + interval '1 day', g % 2, g % 2 = 1 from generate_series(1, $1::int) g`,
		`insert into outbox.dead (seq, id, topic, key, payload, headers, published_at, attempts, holds)
			select nextval('outbox.seq'), gen_random_uuid(), 'a', 'd' || g, '', '{}', clock_timestamp(), 1, true from generate_series(1, $1::int) g`,
	} {
		exec(t, conn, sql, rows/10)
	}
	exec(t, conn, "analyze")
	look(fmt.Sprintf("and %d waiting and %d dead that hold keys", rows/10, rows/10))
	bounded("with waiting and dead")
	exec(t, conn, `insert into outbox.dead (seq, id, topic, key, payload, headers, published_at, attempts, holds)
		select -g, gen_random_uuid(), 'a', 'k' || g, '', '{}', clock_timestamp(), 1, true from generate_series(0, 999) g`)
	look("and each ready one is blocked")
	bounded("blocked")
}
