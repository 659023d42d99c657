package main

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/outboxrelay/outbox"
	"github.com/outboxrelay/outbox/pgstore"
)

// TestWAL: nobody has the engine, one has it and polls, one streams.
func TestWAL(t *testing.T) {
	t.Parallel()
	url := migrated(t)
	db := "--database-url=" + url
	wantIn(t, call(t, nil, "wal", db).want(t, exitNothing).err, "outbox run --engine wal")

	conn := connect(t, url)
	execSQL(t, conn, `insert into outbox.relay (id, beat, lease_until, lease, host, pid, version, engine, destinations, stream)
		values (gen_random_uuid(), 1, clock_timestamp() + interval '1 hour', interval '1 hour', 'web-2', 9, 'v1', 'wal', '{}',
			'{"state": "polling", "problem": "wal_level is replica", "lanes": [{"destination": "events", "state": "polling"}]}')`)
	r := call(t, nil, "wal", db).want(t, exitUnhealthy)
	wantIn(t, r.out, "web-2", "polling", "wal_level is replica", "events(polling)")
	wantIn(t, r.err, "outbox check --engine wal")
	execSQL(t, conn, "delete from outbox.relay")

	store, err := pgstore.Open(t.Context(), url, &pgstore.Config{Engine: pgstore.EngineWAL})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	relay, err := outbox.NewRelay(store, outbox.To(outbox.SinkFunc(func(context.Context, *outbox.Delivery) error { return nil })), &outbox.Config{Lease: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- relay.Run(ctx) }()
	defer func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()
	var j walJSON
	deadline := time.Now().Add(20 * time.Second)
	for len(j.Relays) == 0 || len(j.Relays[0].Lanes) == 0 || j.Relays[0].Lanes[0].State != "following" {
		if time.Now().After(deadline) {
			t.Fatalf("no relay follows the stream: %+v", j)
		}
		time.Sleep(20 * time.Millisecond)
		if err := json.Unmarshal([]byte(call(t, nil, "wal", "--json", db).out), &j); err != nil {
			t.Fatal(err)
		}
	}
	if j.Slot == nil || j.Relays[0].State != "streaming" || j.Relays[0].Host == "" {
		t.Errorf("wal tells %+v", j)
	}
	r = call(t, nil, "wal", db).want(t, exitDone)
	wantIn(t, r.out, "streaming", "default(following since ", "slot outbox_", " of WAL for it")
	wantIn(t, call(t, nil, "top", "--once", db).want(t, exitDone).out, "live, streams")
	wantIn(t, call(t, nil, "relays", db).want(t, exitDone).out, "live, streams")
	wantIn(t, call(t, nil, "relays", "--json", db).want(t, exitDone).out, `"streaming":true`)

	wantIn(t, call(t, nil, "check", db, "--engine=wal", "--to=stdout:").want(t, exitDone).out, "wal level", "publication", "wal connection")
}
