package pgstore

import (
	"slices"
	"testing"

	"github.com/outboxrelay/outbox"
	"github.com/outboxrelay/outbox/internal/planted"
)

// TestStranded: what is bound to where no live relay would take it is told, by destination, or by destination and topic if some
// relay has that. Without a live relay nobody knows.
func TestStranded(t *testing.T) {
	t.Parallel()
	url := migratedDatabase(t)
	store, conn := newStore(t, url, nil), connect(t, url)
	bind := func(n int, topic, destination string) {
		t.Helper()
		exec(t, conn, `insert into outbox.waiting (id, topic, payload, generation, destination, available_at)
			select gen_random_uuid(), $2, '', 1, nullif($3, ''), clock_timestamp() from generate_series(1, $1::int)`, n, topic, destination)
	}
	bind(2, "a", "")
	bind(3, "a", "lane")
	bind(4, "b", "lane")
	bind(5, "a", "gone")
	bind(strandedBound+1, "b", "gone")
	bind(strandedBound, "c", "lost")
	stranded := func() []outbox.Stranded {
		t.Helper()
		st, err := store.Status(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return st.Stranded
	}
	if got := stranded(); len(got) != 0 {
		t.Errorf("without a live relay: %+v", got)
	}
	relay := newTestRelay(t, store, "a")
	want := []outbox.Stranded{
		{Destination: "gone", Messages: outbox.Depth{Messages: strandedBound + 5, AtLeast: true}},
		{Destination: "lane", Topic: "b", Messages: outbox.Depth{Messages: 4}},
		{Destination: "lost", Messages: outbox.Depth{Messages: strandedBound}},
	}
	got := stranded()
	if !slices.Equal(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	for i, release := range []string{"outbox retry --destination gone --by-route", "outbox retry --destination lane --topic b --by-route",
		"outbox retry --destination lost --by-route"} {
		if got := got[i].Release(); got != release {
			t.Errorf("release by %q, want %q", got, release)
		}
	}
	// What is released is told no more, and a relay that has lapsed takes nothing.
	if r, err := store.Retry(t.Context(), outbox.Change{Filter: outbox.Filter{BoundTo: "gone", Topic: "b"}, ByRoute: true}); err != nil || r.Changed != strandedBound+1 {
		t.Errorf("%+v, %v", r, err)
	}
	if got := stranded(); got[0].Messages != (outbox.Depth{Messages: 5}) {
		t.Errorf("%+v", got)
	}
	newTestRelay(t, store, "a")
	expire(t, conn, relay)
	newTestRelay(t, store, ">")
	if got := stranded(); len(got) != 2 || got[0].Destination != "gone" || got[1].Destination != "lost" {
		t.Errorf("with all topics: %+v", got)
	}
}

// TestStrandedIsBounded: however much waits, is bound, and is stranded, a look reads a bounded part of it, by the index for it.
func TestStrandedIsBounded(t *testing.T) {
	t.Parallel()
	url := migratedDatabase(t)
	store, conn := newStore(t, url, nil), connect(t, url)
	newTestRelay(t, store, "a")
	const many = 20_000
	exec(t, conn, `insert into outbox.waiting (id, topic, payload, destination, available_at)
		select gen_random_uuid(), case when g % 2 = 0 then 'a' else 'b' end, '', (array['lane', 'gone', null])[1 + g % 3], clock_timestamp()
		from generate_series(1, $1::int) g`, many)
	exec(t, conn, "set enable_seqscan = off")
	exec(t, conn, "set enable_bitmapscan = off")
	look := func(t testing.TB) {
		t.Helper()
		checkBounded(t, conn, 3*(strandedBound+1), // gone a, gone b, lane b
			render(statusStrandedSQL, DefaultSchema), strandedBound)
	}
	look(t)
	exec(t, conn, "analyze outbox.waiting")
	look(t)
	exec(t, conn, "drop index outbox.waiting_bound")
	if planted.Failures(t, look) == "" {
		t.Error("not found without the index")
	}
}
