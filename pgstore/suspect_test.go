package pgstore

import (
	"context"
	"log/slog"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/outboxrelay/outbox"
)

func TestSuspectPace(t *testing.T) {
	url := migratedDatabase(t)
	conn := connect(t, url)
	store := newStore(t, url, nil)
	exec(t, conn, `insert into outbox.message (id, topic, key, payload) select gen_random_uuid(), 'a', 'k' || n, 'x' from generate_series(1, 500) n`)
	if os.Getenv("SUS") != "" {
		exec(t, conn, `insert into outbox.claim (token, relay, beat, destination, seqs, keys, floor, lapses)
		select gen_random_uuid(), null, 0, 'default', array_agg(seq), array_agg(hashtext(key)), 0, 2 from outbox.message`)
	}
	exec(t, conn, `insert into outbox.message (id, topic, key, payload) select gen_random_uuid(), 'a', 'k' || n % 500, 'x' from generate_series(1, 5000) n`)
	exec(t, conn, `insert into outbox.message (id, topic, key, payload) select gen_random_uuid(), 'a', null, 'y' from generate_series(1, 20000) n`)
	var fresh atomic.Int64
	var sus atomic.Int64
	begin := time.Now()
	var done time.Time
	r, err := outbox.NewRelay(store, outbox.To(outbox.SinkFunc(func(_ context.Context, d *outbox.Delivery) error {
		if d.Seq <= 500 && sus.Add(1)%100 == 0 {
			t.Log("suspects", sus.Load(), "fresh", fresh.Load(), "at", time.Since(begin))
		}
		if string(d.Payload) == "y" && fresh.Add(1) == 20000 {
			done = time.Now()
		}
		return nil
	})), &outbox.Config{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	counts, err := r.RunUntilIdle(t.Context())
	t.Logf("%+v %v in %v, fresh after %v", counts, err, time.Since(begin), done.Sub(begin))
}
