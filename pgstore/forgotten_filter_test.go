package pgstore

import (
	"fmt"
	"strings"
	"testing"
)

// TestForgottenFilter: a call that does not say which messages it means changes none, whatever else it says, and the error says how to
// mean all.
func TestForgottenFilter(t *testing.T) {
	t.Parallel()
	url := migratedDatabase(t)
	conn := connect(t, url)
	insert(t, conn, "a", 3, 0)
	exec(t, conn, `insert into outbox.waiting (id, topic, payload, attempts, available_at)
		values (gen_random_uuid(), 'a', '', 1, clock_timestamp() + interval '1 hour')`)
	exec(t, conn, `insert into outbox.dead (seq, id, topic, payload, headers, published_at, holds)
		values (nextval('outbox.seq'), gen_random_uuid(), 'a', '', '{}', now(), false)`)
	insertArchived(t, conn, 1, "2020-01-01")
	insertArchived(t, conn, 2, "2020-01-01")
	exec(t, conn, "update outbox.archive set topic = 'b' where seq = 2")
	state := func() string {
		return value[string](t, conn, `select concat((select count(*) from outbox.message), ' ', (select count(*) from outbox.waiting where available_at > now()), ' ',
			(select count(*) from outbox.dead), ' ', (select count(*) from outbox.archive), ' ', (select count(*) from outbox.operation))`)
	}
	before := state()
	for _, call := range []string{"redrive(%s)", "retry(%s)", "discard(reason => 'test', %s)", "purge(%s)", "replay('lane', %s)"} {
		for _, args := range []string{"", "everything => false", "everything => null", "ids => null", "topic => null", "max_messages => 5", "dry_run => true",
			"rate => 10, batch => 1", "operation => null", "actor => 'me'"} {
			sql := "select * from outbox." + strings.ReplaceAll(strings.Replace(call, "%s", args, 1), ", )", ")")
			_, err := conn.Exec(t.Context(), sql)
			if state, _ := sqlError(err); state != "22023" || !strings.Contains(err.Error(), "everything => true") {
				t.Errorf("%s: %v", sql, err)
			}
		}
	}
	for _, sql := range []string{"retry(by_route => true)", "retry(everything => true, by_route => true)", "redrive(key => 'k', by_route => true)",
		"retry(destination => 'No Name')", "discard(destination => 'gone', states => '{ready}', reason => 'test')", "purge(states => '{}')",
		"purge(states => '{dead}', everything => true)", "purge(states => null)", "purge(states => '{ready}')", "discard_held(null, '1 s')"} {
		_, err := conn.Exec(t.Context(), "select * from outbox."+sql)
		if state, _ := sqlError(err); state != "22023" {
			t.Errorf("%s: %v", sql, err)
		}
	}
	if after := state(); after != before {
		t.Errorf("ready, waiting, dead, archived messages and operations are %s, and were %s", after, before)
	}
	// What is said is done: without states both.
	all := func(call string) (n int64) {
		t.Helper()
		id, more := int64(0), true
		for sql := "outbox.purge(" + call + ")"; more; sql = fmt.Sprintf("outbox.purge(operation => %d)", id) {
			if err := conn.QueryRow(t.Context(), "select operation_id, changed, more from "+sql).Scan(&id, &n, &more); err != nil {
				t.Fatal(err)
			}
		}
		return n
	}
	if n := all("topic => 'a'"); n != 2 {
		t.Errorf("%d are purged of the topic, want the dead one and the one that is kept", n)
	}
	if n := all("everything => true"); n != 1 {
		t.Errorf("%d are purged, want the rest", n)
	}
}
