package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
)

// archive inserts n messages of a topic that ended some days ago.
func archive(t *testing.T, conn *pgx.Conn, topic, outcome string, n, days int) {
	t.Helper()
	execSQL(t, conn, `insert into outbox.archive (seq, id, topic, key, payload, headers, published_at, attempts, destination, outcome, ended_at)
		select nextval('outbox.seq'), gen_random_uuid(), $1, 'k' || g, convert_to('{"n":' || g || '}', 'UTF8'), '{"h": "v"}', now() - $4 * interval '1 day', 1,
		    'default', $2, now() - $4 * interval '1 day' from generate_series(1, $3::int) g`, topic, outcome, n, days)
}

func TestLifeCycleIsRefused(t *testing.T) {
	url := "--database-url=" + migrated(t)
	for args, says := range map[string]string{
		"purge": "--state", "purge --all": "--state", "purge --state=ready": "delivered", "purge --state=gone": "States", "purge --state=dead --all": "All",
		"purge --state=dead --older-than=5": "unit", "purge --continue=1 --holding": "Holding", "purge --state=dead --destination=x": "unknown flag",
		"redrive --all --state=dead": "unknown flag", "discard --state=delivered --reason=x": "States",
		"replay --all": "--destination", "replay --destination=No --all": "Destination", "replay --destination=x": "which messages?",
		"replay --destination=x --all --state=dead": "States", "replay --destination=x --class=error": "Class",
		"ops --limit=0": "--limit", "list --limit=2000": "Limit", "list --state=x": "States", "list --older-than=5": "unit", "list --after=x": "After",
		"show": "arg", "show x": "is no UUID", "dead x": "unknown command", "partitions x": "unknown command",
	} {
		code := exitUsage
		if args == "list --after=x" {
			code = exitFailed
		}
		wantIn(t, call(t, nil, append(strings.Fields(args), url)...).want(t, code).err, says)
	}
	call(t, nil, "show", "019545c8-4c35-7000-8000-000000000001", url).want(t, exitNothing)
	wantIn(t, call(t, nil, "ops", url).want(t, exitDone).err, "no operator")
	wantIn(t, call(t, nil, "list", url).want(t, exitDone).err, "no message")
	wantIn(t, call(t, nil, "dead", url).want(t, exitDone).err, "no message is dead")
}

func TestPurge(t *testing.T) {
	url := migrated(t)
	conn, flag := connect(t, url), "--database-url="+url
	archive(t, conn, "orders.created", "delivered", 3, 10)
	archive(t, conn, "audit", "expired", 2, 10)
	archive(t, conn, "audit", "delivered", 1, 1)
	makeDead(t, conn, "audit", 2)
	execSQL(t, conn, "update outbox.dead set holds = true where key = 'k1'")
	wantIn(t, call(t, nil, "purge", "--state=delivered", "--older-than=7d", flag).want(t, exitUsage).err, "3 messages", "--yes")
	out := call(t, nil, "purge", "--state=delivered,expired", "--older-than=7d", "--topic=audit", "--reason=space", "--yes", flag).want(t, exitDone).out
	if out != "purged: 2 messages (operation 1)\n" {
		t.Errorf("printed %q", out)
	}
	r := call(t, nil, "purge", "--state=dead", "--yes", flag).want(t, exitDone)
	if r.out != "purged: 1 message (operation 2)\n" {
		t.Errorf("printed %q", r.out)
	}
	wantIn(t, r.err, "1 message", "--holding")
	call(t, nil, "purge", "--state=dead", "--holding", "--yes", flag).want(t, exitDone)
	out = call(t, nil, "cleanup", "--older-than=7d", "--yes", flag).want(t, exitDone).out
	if out != "purged: 3 messages (operation 4)\n" {
		t.Errorf("printed %q", out)
	}
	if n := countRows(t, conn, "select (select count(*) from outbox.archive) + (select count(*) from outbox.dead)"); n != 1 {
		t.Errorf("%d are left, want the one that is young", n)
	}
	call(t, nil, "cleanup", "--older-than=7d", "--yes", flag).want(t, exitNothing)
	ops := call(t, nil, "ops", flag).want(t, exitDone).out
	wantIn(t, ops, "purge", "space", "1 (1 left alone)", "states=delivered,expired topic=audit", "before=2")
}

func TestReplay(t *testing.T) {
	url := migrated(t)
	conn, flag := connect(t, url), "--database-url="+url
	archive(t, conn, "orders.created", "delivered", 2, 0)
	archive(t, conn, "orders.created", "discarded", 1, 0)
	r := call(t, nil, "replay", "--destination=default", "--topic=orders.>", "--newer-than=1d", "--yes", flag).want(t, exitDone)
	if r.out != "replayed: 2 messages (operation 1)\n" {
		t.Errorf("printed %q", r.out)
	}
	r = call(t, nil, "replay", "--destination=default", "--all", "--yes", flag).want(t, exitDone)
	wantIn(t, r.err, "under way already")
	out := call(t, nil, "run", flag, "--to=stdout:", "--once", "--keep-delivered=30d", "--archive-payload=false").want(t, exitDone).out
	if n := strings.Count(out, `"generation":1`); n != 2 {
		t.Errorf("%d of 2 replayed messages were delivered: %s", n, out)
	}
	r = call(t, nil, "replay", "--destination=default", "--all", "--yes", flag).want(t, exitFailed)
	wantIn(t, r.err, "2 messages", "archive.payload")
}

func TestReading(t *testing.T) {
	url := migrated(t)
	conn, flag := connect(t, url), "--database-url="+url
	makeDead(t, conn, "billing.paid", 3)
	archive(t, conn, "orders.created", "delivered", 2, 0)
	execSQL(t, conn, "insert into outbox.message (id, topic, payload) values ('019545c8-4c35-7000-8000-000000000001', 'orders.created', '\\x00ff')")
	wantIn(t, call(t, nil, "dead", flag).want(t, exitDone).out, "3 dead", "billing.paid", "timeout", "no answer within Ns")
	r := call(t, nil, "list", "--limit=2", flag).want(t, exitDone)
	wantIn(t, r.out, "ready", "orders.created", "dead", "billing.paid")
	wantIn(t, r.err, "--after dead:")
	_, place, _ := strings.Cut(strings.TrimSpace(r.err), "--after ")
	if rest := call(t, nil, "list", "--after="+place, flag).want(t, exitDone); strings.Count(rest.out, "billing.paid") != 2 || rest.err != "" {
		t.Errorf("the rest is %q %q", rest.out, rest.err)
	}
	var page struct {
		Messages []struct {
			State, Topic string
			Payload      struct{ N int }
			Headers      map[string]string
		}
	}
	out := call(t, nil, "list", "--state=delivered", "--payload", "--json", flag).want(t, exitDone).out
	if err := json.Unmarshal([]byte(out), &page); err != nil || len(page.Messages) != 2 || page.Messages[1].Payload.N != 2 || page.Messages[1].Headers["h"] != "v" {
		t.Errorf("%v: %s", err, out)
	}
	if out := call(t, nil, "list", "--state=delivered", "--json", flag).want(t, exitDone).out; strings.Contains(out, "payload") || strings.Contains(out, "headers") {
		t.Errorf("payloads without being asked for: %s", out)
	}
	wantIn(t, call(t, nil, "show", "019545c8-4c35-7000-8000-000000000001", flag).want(t, exitDone).out, "ready", "orders.created", "2 bytes: 00ff")
	wantIn(t, call(t, nil, "show", "019545c8-4c35-7000-8000-000000000001", "--json", flag).want(t, exitDone).out, `"payload_base64":"AP8="`)
	wantIn(t, call(t, nil, "partitions", flag).want(t, exitDone).out, "archive_default")
	wantIn(t, call(t, nil, "run", flag, "--to=stdout:", "--once", "--keep-delivered=forever").want(t, exitDone).err, "made a partition")
	if n := strings.Count(call(t, nil, "partitions", "--json", flag).want(t, exitDone).out, `"from"`); n != 3 {
		t.Errorf("%d partitions are ahead, want 3", n)
	}
}
