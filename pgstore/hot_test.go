package pgstore

import (
	"fmt"
	"slices"
	"testing"

	"github.com/outboxrelay/outbox"
)

// TestManyDueRowsOfAKey: a redrive makes any number of rows of a key due. A lane that has gone on in them while the first
// were in flight claims the next in a run, in order, up to the first message that cannot go.
func TestManyDueRowsOfAKey(t *testing.T) {
	const n, obstacle = 1500, 40
	for name, c := range map[string]struct {
		sql  string
		stop bool // the obstacle holds the key
	}{
		"nothing":      {"select %d", false},
		"parked":       {"with w as (delete from outbox.waiting where seq = %d returning *) insert into outbox.dead (seq, id, topic, key, payload, headers, published_at, attempts, holds, died_at) select seq, id, topic, key, payload, '{}', published_at, 1, true, clock_timestamp() from w", true},
		"ready":        {"with w as (delete from outbox.waiting where seq = %d returning *) insert into outbox.message (seq, id, topic, key, payload) select seq, id, topic, key, payload from w", true},
		"not due":      {"update outbox.waiting set available_at = clock_timestamp() + interval '1 hour' where seq = %d", true},
		"of a suspect": {"update outbox.waiting set lapses = 2 where seq = %d", true},
		"foreign":      {"update outbox.waiting set topic = 'b' where seq = %d", false},
		"elsewhere":    {"update outbox.waiting set destination = 'other' where seq = %d", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := migratedDatabase(t)
			conn := connect(t, url)
			exec(t, conn, fmt.Sprintf(`insert into outbox.waiting (seq, id, topic, key, payload, holds, available_at)
				select g, gen_random_uuid(), 'a', 'k', 'x', true, clock_timestamp() from generate_series(1, %d) g`, n))
			exec(t, conn, fmt.Sprintf(c.sql, obstacle))
			relay := newTestRelay(t, newStore(t, url, nil), "a")
			first := relay.claim(t, 50)
			batch, err := relay.store.Claim(t.Context(), relay.query(50))
			if err != nil || len(batch.Claims) > 0 {
				t.Fatalf("the key is claimed twice at a time: %+v, %v", batch.Claims, err)
			}
			relay.settle(t, outbox.Delivered, first...)
			var want, got []int64
			for seq := first[len(first)-1].Seq + 1; len(want) < 25 && !(c.stop && seq == obstacle); seq++ {
				if c.sql == "select %d" || seq != obstacle {
					want = append(want, seq)
				}
			}
			// Rows behind one that cannot go are passed over, and the head is met when the lane begins anew.
			waitUntil(t, "the next run is claimed", func() bool {
				for _, d := range relay.claim(t, 50) {
					got = append(got, d.Seq)
				}
				return len(got) > 0
			})
			if !slices.Equal(got, want) {
				t.Errorf("claimed %v, want %v", got, want)
			}
		})
	}
}
