package pgstore

import (
	"context"
	"log/slog"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/outboxrelay/outbox"
)

// suspectBacklog makes n suspects, each at the head of its key with ten messages behind it, in one claim that was
// left behind.
func suspectBacklog(t *testing.T, conn *pgx.Conn, n int) {
	t.Helper()
	exec(t, conn, `insert into outbox.message (id, topic, key, payload)
		select gen_random_uuid(), 'a', 'k' || n, 'suspect' from generate_series(1, $1::int) n`, n)
	exec(t, conn, `insert into outbox.claim (token, relay, beat, destination, seqs, keys, floor, lapses)
		select gen_random_uuid(), null, 0, 'default', array_agg(seq), array_agg(hashtext(key)), 0, 2 from outbox.message`)
	exec(t, conn, `insert into outbox.message (id, topic, key, payload)
		select gen_random_uuid(), 'a', 'k' || 1 + n % $1::int, 'behind' from generate_series(1, 10 * $1::int) n`, n)
}

// Suspects are worked off one by one while fresh messages are delivered as well: neither waits for the other.
func TestSuspectsBesideFreshMessages(t *testing.T) {
	t.Parallel()
	const suspects, fresh = 200, 6000
	url := migratedDatabase(t)
	conn := connect(t, url)
	suspectBacklog(t, conn, suspects)
	exec(t, conn, `insert into outbox.message (id, topic, payload)
		select gen_random_uuid(), 'a', 'fresh' from generate_series(1, $1::int)`, fresh)
	var suspectsDone, freshDone, inHand, suspectsAtHalf, freshAtEnd atomic.Int64
	sink := outbox.SinkFunc(func(_ context.Context, d *outbox.Delivery) error {
		switch string(d.Payload) {
		case "suspect":
			if inHand.Add(1) != 1 {
				t.Error("two suspects are being delivered")
			}
			if suspectsDone.Add(1) == suspects {
				freshAtEnd.Store(freshDone.Load())
			}
			inHand.Add(-1)
		case "fresh":
			if freshDone.Add(1) == fresh/2 {
				suspectsAtHalf.Store(suspectsDone.Load())
			}
		}
		return nil
	})
	r, err := outbox.NewRelay(newStore(t, url, nil), outbox.To(sink), &outbox.Config{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	counts, err := r.RunUntilIdle(t.Context())
	if err != nil || counts.Delivered != 11*suspects+fresh {
		t.Fatalf("%+v, %v", counts, err)
	}
	t.Logf("half of the fresh ones after %d suspects, the last suspect after %d fresh ones", suspectsAtHalf.Load(), freshAtEnd.Load())
	if suspectsAtHalf.Load() < suspects/20 {
		t.Errorf("fresh messages kept the suspects waiting: %d of %d", suspectsAtHalf.Load(), suspects)
	}
	if freshAtEnd.Load() < fresh/20 {
		t.Errorf("suspects kept the fresh messages waiting: %d of %d", freshAtEnd.Load(), fresh)
	}
}
