package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestSQLiteVerbs: what works with a SQLite file, from nothing to an empty outbox.
func TestSQLiteVerbs(t *testing.T) {
	file := filepath.Join(t.TempDir(), "shop.db")
	url := "--database-url=sqlite:" + file
	ok := func(args ...string) result {
		t.Helper()
		return call(t, nil, append(args, url)...).want(t, exitDone)
	}
	r := call(t, nil, "status", url).want(t, exitFailed)
	wantIn(t, r.err, "no such file", "outbox migrate up")
	if _, err := os.Stat(file); err == nil {
		t.Error("status has made the file")
	}
	wantIn(t, ok("migrate", "up").out, "applied 0001_core")
	wantIn(t, ok("migrate", "up").err, "nothing to do")
	id := strings.TrimSpace(ok("publish", "--topic=orders.placed", "--key=k", "--payload=1").out)
	ok("publish", "--topic=orders.placed", "--key=k", "--payload=2")
	wantIn(t, ok("status").out, file, "2 ready")
	wantIn(t, ok("why", id).out, "no relay runs")
	ok("pause", "--topic=orders.>", "--reason=test")
	wantIn(t, ok("keys").out, "orders.>")
	call(t, nil, "run", "--once", "--to=stdout:", url).want(t, exitDone)
	wantIn(t, ok("status").out, "2 ready")
	ok("resume", "--topic=orders.>")
	wantIn(t, ok("discard", "--id="+id, "--reason=test", "--yes").out, "1")
	r = ok("run", "--once", "--to=stdout:")
	wantIn(t, r.out, `"payload":2`)
	wantIn(t, r.err, "delivered 1")
	ok("wait", "--timeout=5s")
	call(t, nil, "redrive", "--all", "--yes", url).want(t, exitNothing)
	call(t, nil, "retry", "--all", "--yes", url).want(t, exitNothing)
	ok("relays")
	call(t, nil, "health", url).want(t, exitUnhealthy)
}

// TestSQLiteRefusals: what needs PostgreSQL says so, and what a setting cannot mean is refused.
func TestSQLiteRefusals(t *testing.T) {
	file := "--database-url=sqlite:" + filepath.Join(t.TempDir(), "shop.db")
	for _, args := range [][]string{{"check"}, {"migrate", "down", "--target=0"}, {"migrate", "list"}, {"migrate", "validate"}, {"bench"}} {
		r := call(t, nil, append(args, file)...).want(t, exitUsage)
		wantIn(t, r.err, "PostgreSQL only", "run, migrate up, publish")
	}
	r := call(t, nil, "run", "--to=stdout:", "--notify=off", "--settle-sync=off", file).want(t, exitUsage)
	wantIn(t, r.err, "notify (flag --notify) is for PostgreSQL", "settle_sync (flag --settle-sync) is for PostgreSQL")
	for _, url := range []string{"sqlite:", "sqlite://x.db", "sqlite::memory:"} {
		r := call(t, nil, "status", "--database-url="+url).want(t, exitUsage)
		wantIn(t, r.err, "sqlite: and the path of a file")
	}
}

// TestSQLiteNext: with a SQLite file no command is named that works with PostgreSQL only.
func TestSQLiteNext(t *testing.T) {
	url := "--database-url=sqlite:" + filepath.Join(t.TempDir(), "shop.db")
	call(t, nil, "migrate", "up", url).want(t, exitDone)
	a := &app{repeated: repeated{sqlite: true}}
	for command := range insteadOfPostgres {
		call(t, nil, append(strings.Fields(command)[1:], url)...).want(t, exitUsage)
		if r := call(t, nil, append(strings.Fields(a.next(command))[1:], url)...); r.code != exitDone && r.code != exitNothing {
			t.Errorf("%s: exit code %d: %s", a.next(command), r.code, r.err)
		}
	}
	call(t, nil, "publish", "--topic=a", url).want(t, exitDone)
	wantIn(t, call(t, nil, "status", url).want(t, exitDone).out, "→ outbox run "+strings.Replace(url, "=", " ", 1))
}
