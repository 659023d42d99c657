package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestSQLiteVerbs: what works with a SQLite file, from nothing to an empty outbox.
func TestSQLiteVerbs(t *testing.T) {
	t.Parallel()
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
	wantIn(t, ok("top", "--once").out, file)
	call(t, nil, "health", url).want(t, exitUnhealthy)
	wantIn(t, ok("migrate", "list").out, "core")
	wantIn(t, ok("migrate", "validate").err, "complete")
	call(t, nil, "migrate", "down", "--target=1", "--yes", url).want(t, exitUsage)
	ok("migrate", "down", "--target=0", "--yes")
	wantIn(t, call(t, nil, "migrate", "validate", url).want(t, exitUnhealthy).err, "outbox migrate up")
}

// TestNoSQLiteFile: a file that is something else is named, and left as it is.
func TestNoSQLiteFile(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "notes.txt")
	write(t, file, "buy milk, and bread")
	for _, args := range [][]string{{"run", "--to=stdout:", "--once"}, {"migrate", "up"}, {"status"}, {"publish", "--topic=a"}} {
		r := call(t, nil, append(args, "--database-url=sqlite:"+file)...).want(t, exitUsage)
		wantIn(t, r.err, file+" is no SQLite database")
	}
	if text, err := os.ReadFile(file); err != nil || string(text) != "buy milk, and bread" {
		t.Errorf("the file has %q, %v", text, err)
	}
	write(t, file, "")
	wantIn(t, call(t, nil, "migrate", "up", "--database-url=sqlite:"+file).want(t, exitDone).out, "applied")
}

// TestSQLiteIsDurable: the program's commits wait for the disk.
func TestSQLiteIsDurable(t *testing.T) {
	t.Parallel()
	c := &config{}
	_, db, err := c.openSQLite(filepath.Join(t.TempDir(), "shop.db"), true, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	var synchronous int
	if err := db.QueryRowContext(t.Context(), "pragma synchronous").Scan(&synchronous); err != nil || synchronous != 2 {
		t.Errorf("synchronous is %d, %v; want 2, FULL", synchronous, err)
	}
}

// TestSQLiteRefusals: what needs PostgreSQL says so, and what a setting cannot mean is refused.
func TestSQLiteRefusals(t *testing.T) {
	t.Parallel()
	file := "--database-url=sqlite:" + filepath.Join(t.TempDir(), "shop.db")
	for _, args := range [][]string{{"check"}, {"wal"}, {"migrate", "print"}, {"bench"}} {
		r := call(t, nil, append(args, file)...).want(t, exitUsage)
		wantIn(t, r.err, "PostgreSQL only", "all commands but")
	}
	r := call(t, nil, "run", "--to=stdout:", "--notify=off", "--lock-keys", "--settle-sync=off", "--archive-granularity=7d", "--partition-interval=1h", "--engine=wal", file).want(t, exitUsage)
	wantIn(t, r.err, "notify (flag --notify) is for PostgreSQL", "lock_keys (flag --lock-keys) is for PostgreSQL", "settle_sync (flag --settle-sync) is for PostgreSQL",
		"archive.granularity (flag --archive-granularity) is for PostgreSQL", "partition_interval (flag --partition-interval) is for PostgreSQL", "wal is for PostgreSQL")
	for _, url := range []string{"sqlite:", "sqlite://x.db", "sqlite::memory:"} {
		r := call(t, nil, "status", "--database-url="+url).want(t, exitUsage)
		wantIn(t, r.err, "sqlite: and the path of a file")
	}
}

// TestSQLiteNext: with a SQLite file no command is named that works with PostgreSQL only.
func TestSQLiteNext(t *testing.T) {
	t.Parallel()
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
	wantIn(t, call(t, []string{"OUTBOX_TO=stdout:"}, "status", url).want(t, exitDone).out, "→ outbox run "+strings.Replace(url, "=", " ", 1))
}
