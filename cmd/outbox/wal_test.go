package main

import (
	"context"
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/outboxrelay/outbox"
	"github.com/outboxrelay/outbox/internal/devservices/pgdev"
	"github.com/outboxrelay/outbox/internal/devservices/pgtest"
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
	wantIn(t, r.err, "no relay streams, all poll", "outbox check --engine wal")
	wantIn(t, call(t, nil, "status", db).want(t, exitDone).out, "relay web-2/pid 9 cannot stream: wal_level is replica  → outbox wal")

	// A relay that was killed has told that it streams, and nobody does.
	execSQL(t, conn, `update outbox.relay set streaming = true, stream = '{"state": "streaming", "server_pid": 1, "lanes": []}'`)
	r = call(t, nil, "wal", db).want(t, exitUnhealthy)
	wantIn(t, r.out, "cut off")
	wantIn(t, r.err, "no relay streams, and the one that did is cut off")
	if out := call(t, nil, "relays", db).want(t, exitDone).out; strings.Contains(out, "streams") {
		t.Errorf("relays says that it streams: %s", out)
	}
	execSQL(t, conn, "delete from outbox.relay")

	store, err := pgstore.Open(t.Context(), url, &pgstore.Config{Engine: pgstore.EngineWAL})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	relay, err := outbox.NewRelay(store, outbox.To(outbox.SinkFunc(func(context.Context, *outbox.Delivery) error { return nil })), &outbox.Config{Lease: 10 * time.Second})
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
	if j.Slot == nil || !j.Relays[0].Streams || j.Relays[0].ServerPID != j.Slot.PID || j.Relays[0].State != "streaming" || j.Relays[0].Host == "" {
		t.Errorf("wal tells %+v", j)
	}
	r = call(t, nil, "wal", db).want(t, exitDone)
	wantIn(t, r.out, "streaming", "default(following since ", "slot outbox_", " of WAL for it")
	wantIn(t, call(t, nil, "top", "--once", db).want(t, exitDone).out, "live, streams")
	wantIn(t, call(t, nil, "relays", db).want(t, exitDone).out, "live, streams")
	wantIn(t, call(t, nil, "relays", "--json", db).want(t, exitDone).out, `"streaming":true`)

	wantIn(t, call(t, nil, "check", db, "--engine=wal", "--to=stdout:").want(t, exitDone).out, "wal level", "publication", "wal connection")
}

// TestWALStandIn: one streams, and the one that is to take over has no right to: it is told while the first is there; and when that is
// killed, nobody is said to stream, until the right is granted and the other takes over.
func TestWALStandIn(t *testing.T) {
	server := pgtest.Server(t, pgdev.Config{})
	url := server.URL("postgres")
	db := "--database-url=" + url
	call(t, nil, "migrate", "up", db).want(t, exitDone)
	conn := connect(t, url)
	execSQL(t, conn, "create role app login; grant all on schema outbox to app; grant all on all tables in schema outbox to app; grant all on all sequences in schema outbox to app; grant all on all functions in schema outbox to app")
	args := []string{"run", "--to=stdout:", "--engine=wal", "--notify=off", "--database-migrate=off", "--lease=10s"}
	first := start(t, nil, append(args, db)...)
	eventually(t, "the first streams", func() bool { return call(t, nil, "wal", db).code == exitDone })
	second := start(t, nil, append(args, "--database-url="+strings.Replace(url, "postgres@", "app@", 1))...)

	var r result
	eventually(t, "the second tells that it could not take over", func() bool {
		r = call(t, nil, "wal", db)
		return strings.Contains(r.out, "alter role \"app\" replication;")
	})
	r.want(t, exitUnhealthy)
	wantIn(t, r.out, "standing by")
	wantIn(t, r.err, "could not take over from the relay that streams: PROBLEM says why")
	wantIn(t, call(t, nil, "status", db).want(t, exitDone).out, "cannot stream: the role may not replicate", "→ outbox wal")
	wantIn(t, call(t, nil, "check", "--engine=wal", "--to=stdout:", db).want(t, exitUnhealthy).out, "FOUND  relay", "cannot stream: the role may not replicate")

	first.signal(t, os.Kill)
	first.wantExit(t, -1)
	eventually(t, "nobody is said to stream", func() bool { r = call(t, nil, "wal", db); return strings.Contains(r.err, "no relay streams") })
	r.want(t, exitUnhealthy)
	wantIn(t, r.out, "cut off")
	if strings.Contains(r.out, "streaming") {
		t.Errorf("it contradicts itself: %s%s", r.out, r.err)
	}
	execSQL(t, conn, "alter role app replication")
	eventually(t, "the second takes over", func() bool { return call(t, nil, "wal", db).code == exitDone })
	wantIn(t, second.log.String(), "could not stream if the one that does were gone")
}
