package main

import (
	"context"
	"os"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode"

	"github.com/jackc/pgx/v5"

	"github.com/outboxrelay/outbox"
	"github.com/outboxrelay/outbox/pgstore"
)

// makeDead inserts n dead messages of a topic, each with a key of its own.
func makeDead(t *testing.T, conn *pgx.Conn, topic string, n int) {
	t.Helper()
	execSQL(t, conn, `insert into outbox.dead (seq, id, topic, key, payload, headers, published_at, attempts, error_class, last_error, died_at)
		select nextval('outbox.seq'), gen_random_uuid(), $1, 'k' || g, '', '{}', now() - interval '7 hours', 10, 'timeout',
		    'no answer within 30s', now() - interval '6 hours 2 minutes 30 seconds' from generate_series(1, $2::int) g`, topic, n)
}

func countRows(t *testing.T, conn *pgx.Conn, query string) (n int) {
	t.Helper()
	if err := conn.QueryRow(t.Context(), query).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

func TestChangesAreRefused(t *testing.T) {
	inBoth(t, func(t *testing.T, o *testOutbox) { changesAreRefused(t, o.flag) })
}

func changesAreRefused(t *testing.T, url string) {
	for args, says := range map[string]string{
		"redrive": "which messages?", "retry": "which messages?", "discard --reason=x": "which messages?", "redrive --limit=3": "which messages?",
		"discard --all": "--reason", "redrive --all --topic=a": "--all means every message and excludes --topic a", "redrive --id=x": "--id", "redrive --topic=a..b": `--topic "a..b": must be`,
		"redrive --older-than=5": "unit", "discard --all --reason=x --wait=5": "--wait", "redrive --all --rate=-1": `--rate "-1": must be`, "redrive --all --limit=-1": `--limit "-1": must be`,
		"redrive --all --limit=5 --continue=3": "--continue 3 goes on with the messages that the operation means: leave out --all --limit 5",
		"retry --all --by-route":               `--by-route "true": needs`, "redrive --by-route": "which messages?", "retry --all --destination=a": "--all means every message and excludes --destination a",
		"discard --destination=gone --state=ready --reason=x": `--destination "gone": excludes`, "retry --destination=No": `--destination "No"`, "discard --all --reason=x --by-route": "unknown flag",
		"redrive --wait=3s": "unknown flag", "redrive more": "unknown command",
		"pause": "what?", "pause --topic=a --destination=b": "one of them", "resume --topic=a..b": `--topic "a..b"`, "why": "about what?",
		"why --key=k 019545c8-4c35-7000-8000-000000000001": "one of them", "why x": "is no UUID", "keys --limit=0": "--limit",
	} {
		r := call(t, nil, append(strings.Fields(args), url)...).want(t, exitUsage)
		wantIn(t, r.err, says)
	}
	wantIn(t, call(t, nil, "redrive", "--continue=4711", url).want(t, exitNothing).err, "--continue 4711: there is no operation 4711 of redrive", "outbox ops")
}

func TestNothingMatches(t *testing.T) {
	inBoth(t, func(t *testing.T, o *testOutbox) { nothingMatches(t, o.flag) })
}

func nothingMatches(t *testing.T, url string) {
	for _, args := range []string{"redrive --all", "redrive --all --yes", "retry --key=k --yes", "discard --topic=a --reason=x --yes",
		"redrive --all --dry-run", "why --key=k", "why 019545c8-4c35-7000-8000-000000000001"} {
		r := call(t, nil, append(strings.Fields(args), url)...).want(t, exitNothing)
		if r.out != "" || r.err == "" {
			t.Errorf("%s: stdout %q, stderr %q", args, r.out, r.err)
		}
	}
	wantIn(t, call(t, nil, "resume", "--topic=a", url).want(t, exitNothing).err, "not paused")
	wantIn(t, call(t, nil, "redrive", "--all", "--yes", "--json", url).want(t, exitNothing).out, `"matched":0`)
	wantIn(t, call(t, nil, "keys", url).want(t, exitDone).err, "no key is held")
}

func TestRedrive(t *testing.T) { inBoth(t, redrive) }

func redrive(t *testing.T, o *testOutbox) {
	flag := o.flag
	o.dead("billing.paid", 3)
	o.dead("orders.created", 2)
	wantIn(t, call(t, nil, "redrive", "--topic=billing.>", flag).want(t, exitUsage).err, "3 messages", "--yes")
	wantIn(t, call(t, nil, "redrive", "--topic=billing.>", "--dry-run", flag).want(t, exitDone).out, "would be redriven: 3 messages")
	wantIn(t, call(t, nil, "redrive", "--topic=billing.>", "--dry-run", "--json", flag).want(t, exitDone).out, `{"dry_run":true,"matched":3,"changed":0,"held":0}`)
	if n := o.count("select count(*) from outbox.dead"); n != 5 {
		t.Errorf("%d dead after refusals and dry runs", n)
	}
	r := call(t, nil, "redrive", "--topic=billing.>", "--newer-than=8h", "--limit=2", "--reason=billing is back", "--actor=me", "--yes", flag).want(t, exitDone)
	if r.out != "redriven: 2 messages (operation 1)\n" {
		t.Errorf("printed %q", r.out)
	}
	r = call(t, nil, "requeue", "--class=timeout", "--yes", "--json", flag).want(t, exitDone)
	if r.out != `{"operation":2,"dry_run":false,"matched":3,"changed":3,"held":0}`+"\n" {
		t.Errorf("printed %q", r.out)
	}
	ops := o.operations()
	if done := ops[1]; done.ID != 1 || done.Verb != "redrive" || done.State != "done" || done.Actor != "me" || done.Reason != "billing is back" ||
		done.Filter["topic"] != "billing.>" || done.Filter["limit"] != "2" || done.Matched != 2 || done.Changed != 2 || done.Held != 0 || done.FinishedAt == nil {
		t.Errorf("the operation is not recorded: %+v", done)
	}
	if !regexp.MustCompile(`^.+@.+$`).MatchString(ops[0].Actor) {
		t.Errorf("nobody has done it: %+v", ops[0])
	}
	out := call(t, nil, "run", flag, "--to=stdout:", "--once").want(t, exitDone).out
	if n := strings.Count(out, `"generation":1`); n != 5 {
		t.Errorf("%d of 5 redriven messages were delivered: %s", n, out)
	}
}

func TestConfirmation(t *testing.T) {
	for answer, code := range map[string]int{"y\n": exitDone, "YES\n": exitDone, "n\n": exitFailed, "\n": exitFailed, "": exitUsage} {
		err := confirmed(strings.NewReader(answer))
		got := exitDone
		if f, ok := err.(*failure); ok {
			got = f.code
		}
		if got != code {
			t.Errorf("%q: %v", answer, err)
		}
	}
}

// TestCtrlCAtTheQuestion: it ends the program, although that waits for an answer.
func TestCtrlCAtTheQuestion(t *testing.T) {
	t.Parallel()
	url := migrated(t)
	conn, flag := connect(t, url), "--database-url="+url
	makeDead(t, conn, "a", 1)
	terminal, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Skip(err)
	}
	defer terminal.Close()
	p := startIn(t, nil, terminal, nil, "redrive", "--all", flag)
	eventually(t, "it asks", func() bool { return strings.Contains(p.log.String(), "Do it?") })
	p.signal(t, os.Interrupt)
	ended := make(chan struct{})
	go func() {
		p.wantExit(t, -1)
		close(ended)
	}()
	select {
	case <-ended:
	case <-time.After(20 * time.Second):
		p.signal(t, os.Kill)
		<-ended
		t.Error("it still waits for an answer")
	}
	if n := countRows(t, conn, "select count(*) from outbox.dead"); n != 1 {
		t.Error("the message was redriven")
	}
}

// testClaim makes a relay hold what is ready, and returns the deliveries.
func testClaim(t *testing.T, store *pgstore.Store, lease time.Duration) []*outbox.Delivery {
	t.Helper()
	info := outbox.RelayInfo{ID: outbox.NewID(), Lease: lease, Host: "web-1", PID: 812, Version: "v1.2.3", Engine: "poll",
		Lanes: []outbox.LaneInfo{{Destination: "events", Topics: outbox.TopicSet{{Pattern: ">", In: true}}}}}
	if _, err := store.Beat(t.Context(), info, nil); err != nil {
		t.Fatal(err)
	}
	batch, err := store.Claim(t.Context(), outbox.ClaimQuery{Relay: info.ID, Destination: "events", Token: outbox.NewID(), Limit: 100, Bytes: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	var ds []*outbox.Delivery
	for _, c := range batch.Claims {
		ds = append(ds, c.Deliveries...)
	}
	return ds
}

func openStore(t *testing.T, url string) *pgstore.Store {
	t.Helper()
	store, err := pgstore.Open(t.Context(), url, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(store.Close)
	return store
}

func TestDiscardOfWhatIsHeld(t *testing.T) {
	t.Parallel()
	url := migrated(t)
	flag, store := "--database-url="+url, openStore(t, url)
	id := strings.TrimSpace(call(t, nil, "publish", "--topic=a", "--key=k", flag).want(t, exitDone).out)
	ds := testClaim(t, store, time.Minute)
	discard := []string{"discard", "--id=" + id, "--reason=order 7 was deleted", "--yes", flag}
	r := call(t, nil, discard...).want(t, exitFailed)
	wantIn(t, r.err, "1 message held", "--wait")
	wantIn(t, call(t, nil, "discard", "--all", "--dry-run", flag).want(t, exitDone).out, "1 message, of which 1 held")
	ended := make(chan result, 1)
	go func() { ended <- call(t, nil, append(discard, "--wait=1m")...) }()
	conn := connect(t, url)
	eventually(t, "it waits", func() bool {
		return countRows(t, conn, "select count(*) from outbox.operation where state = 'waiting'") == 1
	})
	o := outbox.Outcome{Claim: ds[0].Claim, Seq: ds[0].Seq, Kind: outbox.Retried, Attempts: 1, Class: "error", Text: "x"}
	if _, err := store.Settle(t.Context(), []outbox.Outcome{o}); err != nil {
		t.Fatal(err)
	}
	if n := countRows(t, conn, "select (select count(*) from outbox.message) + (select count(*) from outbox.waiting)"); n != 0 {
		t.Errorf("%d messages outlive the settlement", n)
	}
	r = (<-ended).want(t, exitDone)
	wantIn(t, r.out, "discarded: 1 message")
	wantIn(t, r.err, "waiting until")
}

// TestCtrlCInADiscardThatWaits: it ends with what was done, and the command that goes on.
func TestCtrlCInADiscardThatWaits(t *testing.T) {
	t.Parallel()
	url := migrated(t)
	flag := "--database-url=" + url
	call(t, nil, "publish", "--topic=a", flag).want(t, exitDone)
	testClaim(t, openStore(t, url), time.Minute)
	p := start(t, nil, "discard", "--all", "--reason=x", "--wait=1m", "--yes", flag)
	eventually(t, "it waits", func() bool { return strings.Contains(p.log.String(), "waiting until") })
	p.signal(t, os.Interrupt)
	p.wantExit(t, exitAbandoned)
	wantIn(t, p.log.String(), "0 messages discarded, 1 message still held by live relays; go on by: outbox discard --continue 1 --wait 30s")
	call(t, nil, "discard", "--continue=1", "--wait=100ms", flag).want(t, exitFailed)
}

func TestPauseAndResume(t *testing.T) {
	t.Parallel()
	url := migrated(t)
	flag, conn := "--database-url="+url, connect(t, url)
	call(t, nil, "publish", "--topic=billing.paid", "--key=k", flag).want(t, exitDone)
	wantIn(t, call(t, nil, "pause", "--topic=billing.>", "--dry-run", flag).want(t, exitDone).out, "would be paused: topic billing.>")
	wantIn(t, call(t, nil, "pause", "--topic=billing.>", "--reason=wrong invoices", "--actor=me", flag).want(t, exitDone).out, "paused: topic billing.>")
	if out := call(t, nil, "run", flag, "--to=stdout:", "--once").want(t, exitDone).out; out != "" {
		t.Errorf("delivered while paused: %s", out)
	}
	held, gap := regexp.MustCompile(`\d+(ms|s) +paused`), regexp.MustCompile(`  +`) // the columns are as wide as the time
	out := gap.ReplaceAllString(call(t, nil, "keys", flag).want(t, exitDone).out, "  ")
	golden(t, "keys_paused", anonymise(held.ReplaceAllString(out, "AGE paused")))
	wantIn(t, call(t, nil, "status", flag).want(t, exitDone).out, "paused", "wrong invoices  → outbox resume --topic 'billing.>'")
	wantIn(t, call(t, nil, "resume", "--topic=billing.>", "--json", flag).want(t, exitDone).out, `"changed":1`)
	if out := call(t, nil, "run", flag, "--to=stdout:", "--once").want(t, exitDone).out; !strings.Contains(out, "billing.paid") {
		t.Errorf("not delivered after resuming: %s", out)
	}
	if n := countRows(t, conn, "select count(*) from outbox.operation where verb in ('pause', 'resume') and state = 'done'"); n != 2 {
		t.Errorf("%d of 2 operations are recorded", n)
	}
}

// TestThreeInTheMorning: from a first look to the command that releases a blocked key.
func TestThreeInTheMorning(t *testing.T) {
	t.Parallel()
	url := migrated(t)
	flag, conn := "--database-url="+url, connect(t, url)
	fakeRelay(t, url, "web-1", 812, ">")
	execSQL(t, conn, `insert into outbox.waiting (id, topic, key, payload, published_at, attempts, holds, available_at, first_failed_at, failed_at, error_class, last_error)
		values ('019545c8-4c35-7000-8000-000000000001', 'billing.paid', 'customer-7', '', now() - interval '6 hours 10 minutes', 14, true,
		    now() + interval '4 minutes 30 seconds', now() - interval '6 hours 2 minutes 30 seconds', now(), 'error', 'customer 7 is unknown')`)
	execSQL(t, conn, `insert into outbox.message (id, topic, key, payload)
		select case g when 1 then '019545c8-4c35-7000-8000-000000000002' else gen_random_uuid() end, 'billing.paid', 'customer-7', ''
		from generate_series(1, 12000) g order by g`)
	golden(t, "status_blocked", anonymise(call(t, nil, "status", flag).want(t, exitDone).out))
	golden(t, "keys", call(t, nil, "keys", flag).want(t, exitDone).out)
	seconds := regexp.MustCompile(`"(held|next_try|due)_seconds":[\d.]+`)
	golden(t, "keys_json", seconds.ReplaceAllString(call(t, nil, "keys", "--json", flag).want(t, exitDone).out, `"${1}_seconds":N`))
	golden(t, "why", call(t, nil, "why", "019545c8-4c35-7000-8000-000000000002", flag).want(t, exitDone).out)
	golden(t, "why_key", call(t, nil, "why", "--key=customer-7", flag).want(t, exitDone).out)
	golden(t, "why_json", anonymise(seconds.ReplaceAllString(call(t, nil, "why", "--key=customer-7", "--json", flag).want(t, exitDone).out, `"${1}_seconds":N`)))
	why := decode[whyJSON](t, call(t, nil, "why", "019545c8-4c35-7000-8000-000000000002", "--json", flag).want(t, exitDone))
	command := strings.Fields(why.Reasons[len(why.Reasons)-1].Next)
	call(t, nil, append(command[1:], "--yes", flag)...).want(t, exitDone)
	call(t, nil, "discard", "--id=019545c8-4c35-7000-8000-000000000001", "--reason=unknown customer", "--yes", flag).want(t, exitDone)
	wantIn(t, call(t, nil, "keys", flag).want(t, exitDone).err, "no key is held")
}

// TestStoppedChangeGoesOn: Ctrl-C, and a kill without warning, leave an operation that can be gone on with.
func TestStoppedChangeGoesOn(t *testing.T) {
	t.Parallel()
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGKILL} {
		t.Run(sig.String(), func(t *testing.T) {
			inBoth(t, func(t *testing.T, o *testOutbox) { stoppedChangeGoesOn(t, o, sig) })
		})
	}
}

func stoppedChangeGoesOn(t *testing.T, o *testOutbox, sig syscall.Signal) {
	o.dead("a", 300)
	p := start(t, nil, "redrive", "--all", "--yes", "--rate=50", o.flag)
	eventually(t, "it has begun", func() bool { return o.count("select count(*) from outbox.waiting") > 0 })
	p.signal(t, sig)
	if sig == syscall.SIGINT {
		p.wantExit(t, exitAbandoned)
	} else {
		p.wantExit(t, -1)
	}
	// The server may still be at the last batch of a client that is gone.
	eventually(t, "the operation says how many are redriven", func() bool {
		ops := o.operations()
		done := o.count("select count(*) from outbox.waiting")
		return len(ops) == 1 && ops[0].State == "running" && ops[0].Changed == int64(done) && strings.HasPrefix(ops[0].Next, "outbox redrive --continue 1 ")
	})
	done := o.count("select count(*) from outbox.waiting")
	if left := o.count("select count(*) from outbox.dead"); left == 0 || left+done != 300 {
		t.Fatalf("%d redriven, %d dead", done, left)
	}
	wantIn(t, call(t, nil, "redrive", "--continue=1", "--rate=100000", o.flag).want(t, exitDone).out, "redriven: 300 messages (operation 1)")
	if n := o.count("select count(*) from outbox.waiting where generation = 1"); n != 300 {
		t.Errorf("%d of 300 are redriven, each once", n)
	}
}

// TestStoppedChangeSaysSo: what a stopped change prints is the command that goes on.
func TestStoppedChangeSaysSo(t *testing.T) {
	t.Parallel()
	url := migrated(t)
	conn, flag := connect(t, url), "--database-url="+url
	makeDead(t, conn, "a", 100)
	ctx, cancel := context.WithCancel(t.Context())
	out, log := &lockedBuffer{}, &lockedBuffer{}
	ended := make(chan int)
	go func() { ended <- run(ctx, []string{"redrive", "--all", "--yes", "--rate=20", flag}, nil, out, log) }()
	eventually(t, "it has begun", func() bool { return countRows(t, conn, "select count(*) from outbox.waiting") > 0 })
	cancel()
	if code := <-ended; code != exitAbandoned {
		t.Errorf("exit code %d", code)
	}
	wantIn(t, log.String(), "should this be stopped, go on by: outbox redrive --continue 1", "stopped: ", "redriven; go on by: outbox redrive --continue 1")
}

// TestHostileTextsAreShownHarmless: what handlers and operators have written does not steer the terminal of who reads it.
func TestHostileTextsAreShownHarmless(t *testing.T) {
	t.Parallel()
	url := migrated(t)
	conn, flag := connect(t, url), "--database-url="+url
	makeDead(t, conn, "a", 1)
	execSQL(t, conn, `update outbox.dead set holds = true, last_error = e'x\x1b[31m\ry\tz\u009bq\nmore'`)
	call(t, nil, "pause", "--topic=b", "--reason=x\x1b[31m\nfoo", flag).want(t, exitDone)
	for _, args := range [][]string{{"keys"}, {"why", "--key=k1"}, {"status"}} {
		r := call(t, nil, append(args, flag)...).want(t, exitDone)
		wantIn(t, r.out, "x [31m")
		if i := strings.IndexFunc(r.out+r.err, func(r rune) bool { return unicode.IsControl(r) && r != '\n' }); i >= 0 {
			t.Errorf("%s prints a control character: %q", args[0], r.out+r.err)
		}
		if strings.Contains(r.out, "\nfoo") || strings.Contains(r.out, "\nmore") {
			t.Errorf("%s: a text begins a line of its own: %q", args[0], r.out)
		}
	}
	r := call(t, nil, "redrive", "--continue=1", flag).want(t, exitNothing)
	wantIn(t, r.err, "--continue 1: there is no operation 1 of redrive")
	if strings.Contains(r.err, "go on by") {
		t.Errorf("an operation of another verb is offered to be gone on with: %s", r.err)
	}
}

// TestPauseOfAnUnknownDestination: it may be misspelt, or its relay not yet be there.
func TestPauseOfAnUnknownDestination(t *testing.T) {
	t.Parallel()
	url := migrated(t)
	flag := "--database-url=" + url
	if r := call(t, nil, "pause", "--destination=evnts", flag).want(t, exitDone); r.err != "" {
		t.Errorf("without a relay: %s", r.err)
	}
	execSQL(t, connect(t, url), `insert into outbox.relay (id, beat, lease_until, lease, host, pid, version, engine, destinations)
		values (gen_random_uuid(), 1, now() + interval '1 minute', interval '1 minute', 'h', 1, 'v', 'poll', '{"events": {"take": "", "topics": []}}')`)
	wantIn(t, call(t, nil, "pause", "--destination=evnts", flag).want(t, exitDone).err, "no live relay has a destination evnts", "events")
	if r := call(t, nil, "pause", "--destination=events", flag).want(t, exitDone); r.err != "" {
		t.Errorf("of a known destination: %s", r.err)
	}
	call(t, nil, "resume", "--destination=evnts", "--dry-run", flag).want(t, exitDone)
	call(t, nil, "resume", "--destination=evnts", flag).want(t, exitDone)
	call(t, nil, "resume", "--destination=evnts", "--dry-run", flag).want(t, exitNothing)
	call(t, nil, "pause", "--destination=Events", flag).want(t, exitUsage)
}
