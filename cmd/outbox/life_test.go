package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

func TestLifeCycleIsRefused(t *testing.T) {
	inBoth(t, func(t *testing.T, o *testOutbox) { lifeCycleIsRefused(t, o.flag) })
}

func lifeCycleIsRefused(t *testing.T, url string) {
	for args, says := range map[string]string{
		"purge": "--state", "purge --all": "--state", "purge --state=ready": "delivered", "purge --state=gone": `--state "gone": must be`, "purge --state=dead --all": "--all means every message and excludes --state dead",
		"purge --state=dead --older-than=5": "unit", "purge --continue=1 --holding": "--holding", "purge --state=dead --destination=x": "unknown flag",
		"redrive --all --state=dead": "unknown flag", "discard --state=delivered --reason=x": `--state "delivered"`,
		"replay --all": "--destination", "replay --destination=No --all": `--destination "No": must be`, "replay --destination=x": "which messages?",
		"replay --destination=x --topic=a --state=dead": `--state "dead"`, "replay --destination=x --class=error": `--class "error"`,
		"ops --limit=0": "--limit", "list --limit=2000": `--limit "2000"`, "list --state=x": `--state "x"`, "list --older-than=5": "unit", "list --after=x": `--after "x"`,
		"show": "which message?", "show x": "is no UUID", "dead x": "unknown command", "partitions x": "unknown command",
	} {
		wantIn(t, call(t, nil, append(strings.Fields(args), url)...).want(t, exitUsage).err, says)
	}
	call(t, nil, "show", "019545c8-4c35-7000-8000-000000000001", url).want(t, exitNothing)
	wantIn(t, call(t, nil, "ops", url).want(t, exitDone).err, "no operator")
	wantIn(t, call(t, nil, "list", url).want(t, exitNothing).err, "no message")
	wantIn(t, call(t, nil, "dead", url).want(t, exitDone).err, "no message is dead")
}

func TestPurge(t *testing.T) { inBoth(t, purge) }

func purge(t *testing.T, o *testOutbox) {
	flag := o.flag
	o.archive("orders.created", "delivered", 3, 10)
	o.archive("audit", "expired", 2, 10)
	o.archive("audit", "delivered", 1, 1)
	o.dead("audit", 2)
	o.exec("update outbox.dead set holds = true where key = 'k1'")
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
	if n := o.count("select (select count(*) from outbox.archive) + (select count(*) from outbox.dead)"); n != 1 {
		t.Errorf("%d are left, want the one that is young", n)
	}
	call(t, nil, "cleanup", "--older-than=7d", "--yes", flag).want(t, exitNothing)
	ops := call(t, nil, "ops", flag).want(t, exitDone).out
	wantIn(t, ops, "purge", "space", "1 (1 left alone)", "states=delivered,expired topic=audit", "before=2")
}

func TestReplay(t *testing.T) { inBoth(t, replay) }

func replay(t *testing.T, o *testOutbox) {
	flag := o.flag
	o.archive("orders.created", "delivered", 2, 0)
	o.archive("orders.created", "discarded", 1, 0)
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

func TestReading(t *testing.T) { inBoth(t, reading) }

func reading(t *testing.T, o *testOutbox) {
	flag := o.flag
	o.dead("billing.paid", 3)
	o.archive("orders.created", "delivered", 2, 0)
	o.ready("019545c8-4c35-7000-8000-000000000001", "orders.created", []byte{0, 255})
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
}

// TestPartitions: there are those of a PostgreSQL archive; with a SQLite file that there are none is told.
func TestPartitions(t *testing.T) { inBoth(t, partitions) }

func partitions(t *testing.T, o *testOutbox) {
	flag := o.flag
	if o.lite {
		wantIn(t, call(t, nil, "partitions", flag).want(t, exitUsage).err, "one table")
		return
	}
	wantIn(t, call(t, nil, "partitions", flag).want(t, exitDone).out, "archive_default")
	wantIn(t, call(t, nil, "run", flag, "--to=stdout:", "--once", "--keep-delivered=forever").want(t, exitDone).err, "made a partition")
	if n := strings.Count(call(t, nil, "partitions", "--json", flag).want(t, exitDone).out, `"from"`); n != 3 {
		t.Errorf("%d partitions are ahead, want 3", n)
	}
}

// TestThreeAtNight: many messages are behind and one key is blocked. Status, keys and why answer soon and name the next command; the last of
// them cures it. OUTBOX_TEST_BEHIND is how many messages.
func TestThreeAtNight(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("inserts many rows")
	}
	behind := 20_000
	if text := os.Getenv("OUTBOX_TEST_BEHIND"); text != "" {
		var err error
		if behind, err = strconv.Atoi(text); err != nil {
			t.Fatal(err)
		}
	}
	url := migrated(t)
	conn, flag := connect(t, url), "--database-url="+url
	const blocked = 1250 // messages of the key
	execSQL(t, conn, `insert into outbox.waiting (id, topic, key, payload, attempts, holds, available_at, first_failed_at, failed_at, error_class, last_error)
		values (outbox.new_id(), 'billing.paid', 'customer-7', '', 14, true, now() + interval '4 hours', now() - interval '6 hours', now(), 'error', 'customer 7 is unknown')`)
	execSQL(t, conn, `insert into outbox.message (id, topic, key, payload)
		select outbox.new_id(), case when g % ($1 / $2) = 0 then 'billing.paid' else 'orders.created' end,
		    case when g % ($1 / $2) = 0 then 'customer-7' else 'k' || g % 1000 end, '{}' from generate_series(1, $1::int) g`, behind, blocked)
	execSQL(t, conn, "analyze outbox.message")
	const tooLong = 15 * time.Second // many times what a bounded answer takes on a busy machine
	ask := func(args ...string) result {
		t.Helper()
		begin := time.Now()
		r := call(t, nil, append(args, flag)...).want(t, exitDone)
		took := time.Since(begin)
		t.Logf("%s: %v", strings.Join(args, " "), took.Round(time.Millisecond))
		if took > tooLong {
			t.Errorf("%s took %v", args[0], took)
		}
		return r
	}
	wantIn(t, ask("status").out, "1 key", "outbox keys")
	wantIn(t, ask("keys").out, "customer-7", "1,000+", "outbox retry --id")
	last := countedID(t, conn, "select id::text from outbox.message where key = 'customer-7' order by seq desc limit 1")
	for _, about := range [][]string{{"why", last}, {"why", "--key=customer-7"}} {
		wantIn(t, ask(about...).out, "customer 7 is unknown", "outbox retry --id")
	}
	ask("list", "--key=customer-7", "--limit=10")
	ask("show", last)
	ask("dead")
	_, command, _ := strings.Cut(ask("why", last).out, "→ outbox ")
	command, _, _ = strings.Cut(command, "\n")
	wantIn(t, ask(append(strings.Fields(command), "--yes")...).out, "1 message")

	file := filepath.Join(t.TempDir(), "outbox.yaml")
	write(t, file, "destinations: {billing: {url: 'stdout:'}}\nroutes: [{topics: ['billing.>'], to: billing}]\n")
	out := call(t, nil, "run", "--once", "--config="+file, flag).want(t, exitDone).out
	if n := strings.Count(out, `"key":"customer-7"`); n != blocked+1 {
		t.Errorf("%d of %d messages of the key were delivered", n, blocked+1)
	}
	wantIn(t, call(t, nil, "keys", flag).want(t, exitDone).err, "no key is held")
}

func countedID(t *testing.T, conn *pgx.Conn, query string) (id string) {
	t.Helper()
	if err := conn.QueryRow(t.Context(), query).Scan(&id); err != nil {
		t.Fatal(err)
	}
	return id
}

// TestReplayToAnUnknownDestination: nobody would ever take the messages. Without a live relay nobody knows.
func TestReplayToAnUnknownDestination(t *testing.T) {
	t.Parallel()
	url := migrated(t)
	flag := "--database-url=" + url
	conn := connect(t, url)
	execSQL(t, conn, `insert into outbox.relay (id, beat, lease_until, lease, host, pid, version, engine, destinations)
		values (gen_random_uuid(), 1, now() + interval '1 minute', interval '1 minute', 'h', 1, 'v', 'poll', '{"events": {"take": "", "topics": []}}')`)
	for _, args := range []string{"--dry-run", "--yes"} {
		wantIn(t, call(t, nil, "replay", "--destination=evnts", "--all", args, flag).want(t, exitUsage).err, "--destination evnts", "theirs are: events")
	}
	call(t, nil, "replay", "--destination=events", "--all", "--yes", flag).want(t, exitNothing)
	execSQL(t, conn, "delete from outbox.relay")
	call(t, nil, "replay", "--destination=evnts", "--all", "--yes", flag).want(t, exitNothing)
}

// TestExpiredLetters: those that have expired would expire once more, and are not offered to be redriven.
func TestExpiredLetters(t *testing.T) {
	inBoth(t, func(t *testing.T, o *testOutbox) {
		o.dead("billing.paid", 2)
		o.exec("update outbox.dead set error_class = 'expired'")
		out := call(t, nil, "dead", o.flag).want(t, exitDone).out
		wantIn(t, out, "→ outbox discard --topic billing.paid --class expired --reason 'expired'")
		call(t, nil, "discard", "--topic=billing.paid", "--class=expired", "--reason=expired", "--yes", o.flag).want(t, exitDone)
	})
}
