package main

import (
	"testing"
)

// TestRedrivenReachesJetStream: the stream still knows the id of a message that it stored before its relay heard of it; the
// same message again is a duplicate, the redriven one is not.
func TestRedrivenReachesJetStream(t *testing.T) {
	t.Parallel()
	url, server := migrated(t), natsServer(t)
	env := []string{"OUTBOX_DATABASE_URL=" + url, "OUTBOX_TO=" + server.URL(), "OUTBOX_STREAM=ORDERS", "OUTBOX_SUBJECTS=orders.>", "OUTBOX_CREATE=true"}
	conn := connect(t, url)
	id := "019545c8-4c35-7000-8000-000000000001"
	again := func() {
		t.Helper()
		execSQL(t, conn, `insert into outbox.message (seq, id, topic, key, payload) values (1, $1, 'orders.created', 'k', '')`, id)
		call(t, env, "run", "--once").want(t, exitDone)
	}
	again()
	again()
	if n := stored(t, server.URL(), "ORDERS"); n != 1 {
		t.Fatalf("%d messages are stored: the id is not in the dedupe window", n)
	}
	execSQL(t, conn, `insert into outbox.dead (seq, id, topic, key, payload, headers, published_at, attempts)
		values (1, $1, 'orders.created', 'k', '', '{}', now(), 10)`, id)
	for generation := range uint64(2) {
		call(t, env, "redrive", "--id="+id, "--yes").want(t, exitDone)
		call(t, env, "run", "--once").want(t, exitDone)
		if n := stored(t, server.URL(), "ORDERS"); n != 2+generation {
			t.Errorf("%d messages are stored after redrive %d", n, generation+1)
		}
		execSQL(t, conn, `insert into outbox.dead (seq, id, topic, key, payload, headers, published_at, attempts, generation)
			values (1, $1, 'orders.created', 'k', '', '{}', now(), 10, $2)`, id, int(generation)+1)
	}
}
