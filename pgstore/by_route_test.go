package pgstore

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/outboxrelay/outbox"
)

// bindMany makes n messages wait for a destination that is gone, as a replay leaves them, of so many keys; a relay that has died
// held every third of them.
func bindMany(t *testing.T, url string, n, keys int) {
	t.Helper()
	conn := connect(t, url)
	exec(t, conn, `insert into outbox.waiting (id, topic, key, payload, generation, holds, destination, available_at)
		select outbox.new_id(), 'a', 'k' || g % $2::int, '', 1, true, 'gone', clock_timestamp() - interval '1 hour' from generate_series(1, $1::int) g`, n, keys)
	exec(t, conn, `insert into outbox.claim (token, relay, beat, destination, seqs, keys, floor)
		select gen_random_uuid(), gen_random_uuid(), 1, 'gone', array_agg(w.seq order by w.seq), array_agg(hashtext(w.key) order by w.seq), 0
		from outbox.waiting w where w.seq % 3 = 0 group by w.seq % 30`)
}

// TestByRouteUnderLoad: messages that were bound to a destination which is gone lose the binding while two relays deliver what is
// younger of their keys: never two of a key at the same time, and nobody who is claimed afterwards passes one of them.
func TestByRouteUnderLoad(t *testing.T) {
	t.Parallel()
	const bound, messages, keys = 300, 1500, 15
	url := migratedDatabase(t)
	conn, store := connect(t, url), newStore(t, url, nil)
	bindMany(t, url, bound, keys)
	insert(t, conn, "a", messages, keys)
	w := newWatch()
	w.fail = func(*outbox.Delivery) error { time.Sleep(time.Millisecond); return nil }
	stop := w.run(t, url, 2)
	w.await(t, 10)
	for i := 0; w.total.Load() < messages+bound; i++ {
		rows, err := store.pool.Query(t.Context(), "select id, key, seq from outbox.waiting where destination = 'gone' order by random() limit 3")
		if err != nil {
			t.Fatal(err)
		}
		var ids []outbox.ID
		var told []func(claim int64)
		for rows.Next() {
			var id outbox.ID
			var key string
			var seq int64
			if err := rows.Scan(&id, &key, &seq); err != nil {
				t.Fatal(err)
			}
			ids = append(ids, id)
			told = append(told, func(claim int64) { w.redriven(key, seq, 1, claim) })
		}
		if ids == nil {
			w.await(t, messages+bound)
			break
		}
		report, err := store.Retry(t.Context(), outbox.Change{Filter: outbox.Filter{IDs: ids, BoundTo: "gone"}, ByRoute: true})
		if err != nil || report.Changed != int64(len(ids)) {
			t.Fatalf("%+v, %v", report, err)
		}
		claim := value[int64](t, conn, "select last_value from outbox.claim_id_seq")
		for _, tell := range told {
			tell(claim)
		}
	}
	stop()
	w.check(t)
	if left := value[int](t, conn, "select (select count(*) from outbox.waiting) + (select count(*) from outbox.message) + (select count(*) from outbox.claim)"); left != 0 {
		t.Errorf("%d messages and claims are left", left)
	}
}

// TestByRouteGoesOn: a change of many that is stopped goes on with the rest, and changes each once.
func TestByRouteGoesOn(t *testing.T) {
	t.Parallel()
	const bound = 3*changeBatch + 1
	url := migratedDatabase(t)
	conn, store := connect(t, url), newStore(t, url, nil)
	bindMany(t, url, bound, 100)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	c := outbox.Change{Filter: outbox.Filter{BoundTo: "gone"}, ByRoute: true, Actor: "me", Reason: "no more", Progress: func(outbox.ChangeReport) { stop() }}
	report, err := store.Retry(ctx, c)
	if !errors.Is(err, context.Canceled) || report.Changed != changeBatch || !report.More {
		t.Fatalf("stopped: %+v, %v", report, err)
	}
	if left := value[int](t, conn, "select count(*) from outbox.waiting where destination = 'gone'"); left != bound-changeBatch {
		t.Errorf("%d are bound after a batch", left)
	}
	again, err := store.Retry(t.Context(), outbox.Change{Continue: report.Operation})
	if err != nil || again.Operation != report.Operation || again.Changed != bound || again.More {
		t.Errorf("gone on with: %+v, %v", again, err)
	}
	if left := value[int](t, conn, "select count(*) from outbox.waiting where destination is not null or not holds or available_at < now() - interval '1 minute'"); left != 0 {
		t.Errorf("%d are not as they should be", left)
	}
	ops, err := store.Operations(t.Context(), 10)
	want := map[string]string{"destination": "gone", "by_route": "true"}
	if err != nil || len(ops) != 1 || fmt.Sprint(ops[0].Filter) != fmt.Sprint(want) || ops[0].Changed != bound || ops[0].Actor != "me" || ops[0].State != "done" {
		t.Errorf("operations %+v, %v", ops, err)
	}
}
