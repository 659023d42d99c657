package sqlitestore

import (
	"slices"
	"testing"

	"github.com/outboxrelay/outbox"
)

// TestStranded: what is bound to where no live relay would take it is told, by destination, or by destination and topic if some
// relay has that. Without a live relay nobody knows.
func TestStranded(t *testing.T) {
	db := openFile(t, migratedFile(t))
	s := newStore(t, db, nil)
	bind := func(n int, topic, destination string) {
		t.Helper()
		if _, err := db.ExecContext(t.Context(), `with recursive g (n) as (select 1 union all select n + 1 from g where n < ?1)
			insert into outbox_waiting (seq, id, topic, payload, headers, published_at, generation, destination, available_at)
			select (select coalesce(max(seq), 0) from outbox_waiting) + n, 'x', ?2, x'', '{}', 0, 1, nullif(?3, ''), 0 from g`, n, topic, destination); err != nil {
			t.Fatal(err)
		}
	}
	bind(2, "a", "")
	bind(3, "a", "lane")
	bind(4, "b", "lane")
	bind(5, "a", "gone")
	bind(strandedBound+1, "b", "gone")
	bind(strandedBound, "c", "lost")
	execSQL(t, db, "update outbox_sequence set seq = 10000")
	stranded := func() []outbox.Stranded {
		t.Helper()
		st, err := s.Status(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return st.Stranded
	}
	if got := stranded(); len(got) != 0 {
		t.Errorf("without a live relay: %+v", got)
	}
	relay := outbox.RelayInfo{ID: outbox.NewID(), Lease: lease, Lanes: []outbox.LaneInfo{{Destination: "lane",
		Topics: outbox.TopicSet{{Pattern: "a", In: true}}}}}
	if _, err := s.Beat(t.Context(), relay, nil); err != nil {
		t.Fatal(err)
	}
	want := []outbox.Stranded{
		{Destination: "gone", Messages: outbox.Depth{Messages: strandedBound + 5, AtLeast: true}},
		{Destination: "lane", Topic: "b", Messages: outbox.Depth{Messages: 4}},
		{Destination: "lost", Messages: outbox.Depth{Messages: strandedBound}},
	}
	if got := stranded(); !slices.Equal(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if r, err := s.Retry(t.Context(), outbox.Change{Filter: outbox.Filter{BoundTo: "gone", Topic: "b"}, ByRoute: true}); err != nil || r.Changed != strandedBound+1 {
		t.Errorf("%+v, %v", r, err)
	}
	if got := stranded(); got[0].Messages != (outbox.Depth{Messages: 5}) {
		t.Errorf("%+v", got)
	}
}
