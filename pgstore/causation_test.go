package pgstore

import "testing"

// TestSQLGivesCauses: the one reserved header that SQL publishers may give is that of the causes, spelled so, by function
// or plain INSERT.
func TestSQLGivesCauses(t *testing.T) {
	t.Parallel()
	url := migratedDatabase(t)
	store, conn := newStore(t, url, nil), connect(t, url)
	exec(t, conn, `select outbox.publish('a', 'by function', headers => '{"Outbox-Causation": "request-7, job-1"}')`)
	exec(t, conn, `insert into outbox.message (id, topic, payload, headers)
		values (gen_random_uuid(), 'a', 'by insert', '{"Outbox-Causation": "request-7,job-1"}')`)
	for _, headers := range []string{`{"outbox-causation": "x"}`, `{"Outbox-Id": "x"}`, `{"Outbox-Causation": "a\nb"}`} {
		if _, err := conn.Exec(t.Context(), `select outbox.publish('a', '', headers => $1::jsonb)`, headers); err == nil {
			t.Errorf("headers %s are accepted", headers)
		}
	}
	ds := newTestRelay(t, store, "a").claim(t, 10)
	if len(ds) != 2 {
		t.Fatalf("%d messages", len(ds))
	}
	for _, d := range ds {
		if ids := d.Causation(); len(ids) != 2 || ids[0] != "request-7" || ids[1] != "job-1" {
			t.Errorf("%s: %q", d.Payload, ids)
		}
	}
}
