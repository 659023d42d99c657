package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/outboxrelay/outbox"
	"github.com/outboxrelay/outbox/pgstore"
)

func TestMigrateCycle(t *testing.T) {
	t.Parallel()
	url := "--database-url=" + postgres.Database(t)
	wantIn(t, call(t, nil, "migrate", "validate", url).want(t, exitUnhealthy).err, "outbox migrate up")
	wantIn(t, call(t, nil, "migrate", "list", url).want(t, exitDone).out, "core", "no")
	wantIn(t, call(t, nil, "migrate", "up", "--dry-run", url).want(t, exitDone).out, "would apply 0001_core")
	wantIn(t, call(t, nil, "publish", "--topic=a", url).want(t, exitFailed).err, "outbox migrate up")
	wantIn(t, call(t, nil, "migrate", "up", url).want(t, exitDone).out, "applied 0001_core")
	wantIn(t, call(t, nil, "migrate", "up", url).want(t, exitDone).err, "nothing to do")
	call(t, nil, "migrate", "validate", url).want(t, exitDone)
	list := decode[struct{ Migrations []migrationJSON }](t, call(t, nil, "migrate", "list", "--json", url).want(t, exitDone))
	if len(list.Migrations) == 0 || list.Migrations[0].AppliedAt == nil {
		t.Errorf("%+v", list)
	}
	call(t, nil, "publish", "--topic=a", url).want(t, exitDone)
	wantIn(t, call(t, nil, "migrate", "down", "--target=0", "--yes", url).want(t, exitFailed).err, "not empty")
	call(t, nil, "run", "--once", "--to=stdout:", url).want(t, exitDone)
	wantIn(t, call(t, nil, "migrate", "down", "--target=0", url).want(t, exitUsage).err, "--yes")
	call(t, nil, "migrate", "down", "--target=0", "--yes", url).want(t, exitDone)
	call(t, nil, "migrate", "validate", "--json", url).want(t, exitUnhealthy)
}

// TestMigratePrint: what is printed makes the schema that validate accepts.
func TestMigratePrint(t *testing.T) {
	t.Parallel()
	url := postgres.Database(t)
	sql := call(t, nil, "migrate", "print", "--database-schema=shop_outbox").want(t, exitDone).out
	execSQL(t, connect(t, url), sql)
	call(t, nil, "migrate", "validate", "--database-schema=shop_outbox", "--database-url="+url).want(t, exitDone)
	call(t, nil, "migrate", "validate", "--database-url="+url).want(t, exitUnhealthy)
}

func TestPublishAndRunOnce(t *testing.T) {
	t.Parallel()
	url := "--database-url=" + migrated(t)
	id := strings.TrimSpace(call(t, nil, "publish", url, "--topic=orders.created", "--key=order-7", `--payload={"id":7}`,
		"--content-type=application/json", "--header=tenant=a=b", "--max-attempts=unlimited", "--broker-ttl=1d").want(t, exitDone).out)
	r := call(t, nil, "run", url, "--to=stdout:", "--once").want(t, exitDone)
	wantIn(t, r.err, "delivered 1, retried 0")
	got := decode[line](t, r)
	if got.ID != id || got.Topic != "orders.created" || got.Key != "order-7" || string(got.Payload) != `{"id":7}` ||
		got.Headers["tenant"] != "a=b" || got.ContentType == nil || *got.ContentType != "application/json" || got.MaxAttempts != outbox.Unlimited ||
		got.BrokerTTLSeconds != 86400 || got.Attempt != 1 || got.PublishedAt == nil {
		t.Errorf("delivered %+v", got)
	}
	n := decode[map[string]int64](t, call(t, nil, "run", url, "--to=stdout:", "--once", "--json").want(t, exitDone))
	if n["delivered"] != 0 || len(n) != 7 {
		t.Error(n)
	}
}

func TestPublishDedupKeyAndID(t *testing.T) {
	t.Parallel()
	url := "--database-url=" + migrated(t)
	id := outbox.NewID().String()
	args := []string{"publish", url, "--topic=a", "--dedup-key=k", "--id=" + id}
	if out := call(t, nil, args...).want(t, exitDone).out; out != id+"\n" {
		t.Errorf("printed %q", out)
	}
	r := call(t, nil, args...).want(t, exitDone)
	wantIn(t, r.err, `dedup key "k"`)
	if r.out != "" {
		t.Errorf("printed %q", r.out)
	}
	golden(t, "publish_duplicate_json", call(t, nil, append(args, "--json")...).want(t, exitDone).out)
	wantIn(t, call(t, nil, "publish", url, "--topic=a", "--id="+id).want(t, exitFailed).err, "exists already")
}

func TestPublishRefuses(t *testing.T) {
	t.Parallel()
	url := "--database-url=" + migrated(t)
	for args, says := range map[string]string{
		"--topic=a..b": `--topic "a..b": must be`, "--topic=a --id=x": `--id "x": is no UUID`, "--topic=a --delay=5": `--delay "5": must be a duration`,
		"--topic=a --deliver-at=noon": `--deliver-at "noon": must be a time in RFC 3339`, "--topic=a --delay=-5s": `--delay "-5s": must not be negative`,
		"--topic=a --header=x": `--header "x"`, "--topic=a --header=x=1 --header=x=2": "each name once", "--topic=a --max-attempts=0": `--max-attempts "0"`,
		"--topic=a --payload-file=/none": "--payload-file", "--topic=a --header=Outbox-Id=1": "set by the relay",
		"--topic=a --payload=12345 --max-payload=4": "at most 4 bytes", "--topic=a --delay=1m --deliver-at=2030-01-01T00:00:00Z": "give --delay or --deliver-at, not both",
	} {
		wantIn(t, call(t, nil, append(strings.Fields("publish "+args), url)...).want(t, exitUsage).err, says)
	}
}

// TestPublishFileRoundTrip: what stdout: writes can be published again, and comes back the same.
func TestPublishFileRoundTrip(t *testing.T) {
	t.Parallel()
	url := "--database-url=" + migrated(t)
	lines := `{"topic":"a","key":"k","payload":{"n":1},"headers":{"h":"ü<>&"}}
{"topic":"a","key":"k","payload_base64":"AAH/"}

{"topic":"b","key":"k","payload":"text"}
{"topic":"b","key":"k","payload_base64":"Iv8i"}
{"topic":"b","key":"k","content_type":"text/plain","payload_base64":""}
{"topic":"b","key":"k","payload":null,"headers":{"Content-Type":"application/x"}}`
	file := write(t, filepath.Join(t.TempDir(), "lines"), lines)
	deliver := func(file string, published string) (out string) {
		t.Helper()
		wantIn(t, call(t, nil, "publish", url, "--file", file, "--batch=2").want(t, exitDone).err, "published "+published)
		return call(t, nil, "run", url, "--to=stdout:", "--once").want(t, exitDone).out
	}
	first := deliver(file, "6")
	second := deliver(write(t, filepath.Join(t.TempDir(), "again"), first), "6")
	varying := regexp.MustCompile(`"(seq|published_at)":("[^"]*"|\d+),?`)
	if a, b := varying.ReplaceAllString(first, ""), varying.ReplaceAllString(second, ""); a != b {
		t.Errorf("first\n%s\nthen\n%s", a, b)
	}
	ids := regexp.MustCompile(`"(id|published_at)":"[^"]*"`)
	golden(t, "stdout_lines", ids.ReplaceAllString(first, `"$1":"…"`))
}

func TestPublishFileStopsAtAWrongLine(t *testing.T) {
	t.Parallel()
	url := migrated(t)
	file := filepath.Join(t.TempDir(), "lines")
	for text, says := range map[string]string{
		`{"topic":"a","nonsense":1}`:   `lines:4: nonsense: there is no such key`,
		`{"topic":"a","dedupkey":"x"}`: `did you mean dedup_key?`,
		`[]`:                           `must be an object such as {"topic":`,
		`{"topic":7}`:                  `topic: must be a string, not number`,
		`{"topic":"a",}`:               `is no JSON from byte`,
		`{"topic":"a"} {"topic":"b"}`:  "more than one value",
		`{"topic":"a","payload":1,"payload_base64":"AA=="}`:                 "exclude each other",
		`{"topic":"a","payload":"1","key":"a\u0001b"}`:                      `lines:4: key "a\x01b": must have no control characters`,
		`{"topic":"a","payload_base64":"!"}`:                                "payload_base64",
		`{"topic":"a","id":"x"}`:                                            "is no UUID",
		`{"topic":"a","max_attempts":"many"}`:                               "unlimited",
		`{"topic":"a","delay_seconds":-1}`:                                  `delay_seconds "-1s": must not be negative`,
		`{`:                                                                 "lines:4: is no JSON: it ends too early",
		`{"topic":"a..b"}`:                                                  `lines:4: topic "a..b": must be`,
		`{"topic":"a","headers":{"x":1}}`:                                   "headers",
		`{"topic":"a","deliver_at":"now"}`:                                  `deliver_at "now": must be a time`,
		`{"topic":"a","deliver_at":"0000-01-01T00:00:00Z"}`:                 `lines:3-4: publish: message 2 of 2: deliver_at`,
		`{"topic":"a","ttl_seconds":1e12}`:                                  "ttl_seconds 1e+12: must be at most",
		`{"topic":"a","delay_seconds":-1e300}`:                              "delay_seconds",
		"{\"topic\":\"a\",\"key\":\"\xff\"}":                                "lines:4: is not valid UTF-8",
		`{"topic":"a","expires_at":"2030-01-01T00:00:00Z","ttl_seconds":1}`: "give ttl_seconds or expires_at, not both",
	} {
		good := `{"topic":"a"}` + "\n"
		write(t, file, good+good+good+text)
		r := call(t, nil, "publish", "--database-url="+url, "--file", file, "--batch=2").want(t, exitUsage)
		wantIn(t, r.err, says, "everything up to line 2 is published")
	}
	write(t, file, "\n\n")
	call(t, nil, "publish", "--database-url="+url, "--file", file).want(t, exitNothing)
	call(t, nil, "publish", "--database-url="+url, "--file", file, "--json").want(t, exitNothing)
	call(t, nil, "publish", "--database-url="+url, "--file", file+"none").want(t, exitUsage)
	write(t, file, `{"topic":"a","dedup_key":"k"}`+"\n"+`{"topic":"a","dedup_key":"k"}`)
	r := call(t, nil, "publish", "--database-url="+url, "--file", file, "--json").want(t, exitDone)
	wantIn(t, r.out, `"published":1,"duplicates":1`)
}

// endless is a line that never ends.
type endless struct{ read int }

func (e *endless) Read(p []byte) (int, error) {
	e.read += len(p)
	return len(p), nil
}

// TestPublishFileBoundsLines: what is longer than any message is refused, not read into memory to the end.
func TestPublishFileBoundsLines(t *testing.T) {
	in := &endless{}
	err := (&fileRun{batch: 1}).publish(t.Context(), in)
	if err == nil || !strings.Contains(err.Error(), ":1: longer than") || in.read > 2*maxLine {
		t.Errorf("%v after %d bytes", err, in.read)
	}
}

// TestPublishFileBoundsBatches: a batch ends early when its lines are large.
func TestPublishFileBoundsBatches(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	t.Parallel()
	url := migrated(t)
	line := `{"topic":"a","payload":"` + strings.Repeat("x", 1_000_000) + `"}` + "\n"
	file := write(t, filepath.Join(t.TempDir(), "lines"), strings.Repeat(line, 70)+"wrong")
	r := call(t, nil, "publish", "--database-url="+url, "--file", file).want(t, exitUsage)
	wantIn(t, r.err, "everything up to line 68 is published")
}

// TestWaitForSilentDatabase: the timeout holds although the database takes the connection and never answers.
func TestWaitForSilentDatabase(t *testing.T) {
	t.Parallel()
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	ended := make(chan result, 1)
	go func() {
		ended <- call(t, nil, "wait", "--timeout=100ms", "--database-url=postgres://me@"+silent.Addr().String()+"/db")
	}()
	select {
	case r := <-ended:
		r.want(t, exitFailed)
	case <-time.After(30 * time.Second):
		t.Error("waits for ever")
	}
}

// anonymous replaces what differs from call to call.
var anonymous = []struct {
	varies *regexp.Regexp
	stays  string
}{
	{regexp.MustCompile(`outbox_test_[a-z0-9]+`), "DATABASE"},
	{regexp.MustCompile(`\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(\.\d+)?Z`), "TIME"},
	{regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`), "UUID"},
	{regexp.MustCompile(`"(age|seen|lease_left|waited|oldest_eligible)_seconds":-?[\d.]+`), `"${1}_seconds":N`},
	{regexp.MustCompile(`\d+(\.\d+)?(ms|s) ago`), "AGE ago"},
	{regexp.MustCompile(`"pid":\d+`), `"pid":N`},
	{regexp.MustCompile(`eligible (\d+ms|\d+m|\d+s)`), "eligible AGE"},
	{regexp.MustCompile(` +AGE`), " AGE"},
}

func anonymise(text string) string {
	for _, a := range anonymous {
		text = a.varies.ReplaceAllString(text, a.stays)
	}
	return text
}

// fakeRelay registers a relay that does nothing, until the test ends.
func fakeRelay(t *testing.T, url, host string, pid int, patterns ...string) {
	t.Helper()
	store, err := pgstore.Open(t.Context(), url, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(store.Close)
	var topics outbox.TopicSet
	for _, p := range patterns {
		topics = append(topics, outbox.TopicPattern{Pattern: p, In: true})
	}
	info := outbox.RelayInfo{ID: outbox.NewID(), Lease: time.Minute, Host: host, PID: pid, Version: "v1.2.3", Engine: "poll",
		Lanes: []outbox.LaneInfo{{Destination: "events", Topics: topics}}, Counters: map[string]int64{"delivered": 12345}}
	if _, err := store.Beat(t.Context(), info, nil); err != nil {
		t.Fatal(err)
	}
}

func TestStatus(t *testing.T) {
	t.Parallel()
	url := migrated(t)
	conn := connect(t, url)
	execSQL(t, conn, `insert into outbox.message (id, topic, payload, published_at)
		select gen_random_uuid(), t, '', clock_timestamp() - interval '41 minutes 30 seconds'
		from unnest(array['biling.refunded', 'orders.created', 'orders.created']) t`)
	execSQL(t, conn, `insert into outbox.waiting (id, topic, payload, available_at, attempts)
		select gen_random_uuid(), 'orders.created', '', clock_timestamp() + interval '1 day', a from unnest(array[0, 2, 3]) a`)
	execSQL(t, conn, `insert into outbox.dead (seq, id, topic, payload, headers, published_at) values (900, gen_random_uuid(), 'x', '', '{}', now())`)
	wantIn(t, call(t, nil, "status", "--database-url="+url).want(t, exitDone).out, "no live relay: nothing is delivered", "→ outbox run")

	fakeRelay(t, url, "web-1", 812, "orders.>")
	golden(t, "status", anonymise(call(t, nil, "status", "--database-url="+url).want(t, exitDone).out))
	golden(t, "status_json", anonymise(call(t, nil, "status", "--json", "--database-url="+url).want(t, exitDone).out))
	golden(t, "relays", anonymise(call(t, nil, "relays", "--database-url="+url).want(t, exitDone).out))
	golden(t, "relays_json", anonymise(call(t, nil, "relays", "--json", "--database-url="+url).want(t, exitDone).out))
}

func TestWarnings(t *testing.T) {
	st := outbox.Status{Relays: []outbox.RelayStatus{{Live: true}}, Unhandled: []outbox.TopicDepth{{Topic: "a", Messages: 10000, AtLeast: true}},
		Horizon: &outbox.HorizonHolder{Kind: "session", Name: "4123", Age: 5*time.Hour + 58*time.Minute, Text: `app "reporting", idle in transaction`}}
	got := warnings(&st)
	if len(got) != 2 || got[0].Next != "outbox relays" || got[0].Text != `topic "a": 10,000+ ready, no live relay handles it` ||
		got[1].Text != `vacuum horizon held 5h58m by session 4123, app "reporting", idle in transaction` ||
		got[1].Next != "select pg_terminate_backend(4123);" {
		t.Errorf("%q", got)
	}
	st.Horizon.Kind = outbox.HorizonPrepared
	if next := warnings(&st)[1].Next; next != "rollback prepared '4123';" {
		t.Errorf("released by %s", next)
	}
	if n := len(warningFindings(newConfig(), &st)); n != 1 {
		t.Errorf("check finds %d of 1, beside what holds vacuum back", n)
	}
}

// TestMixedSettings: relays of a destination with different rules are warned of and found.
func TestMixedSettings(t *testing.T) {
	lanes := []outbox.RelayLane{{Destination: "billing"}}
	st := outbox.Status{Relays: []outbox.RelayStatus{{Live: true, Settings: "a", Lanes: lanes}, {Live: true, Settings: "b", Lanes: lanes}}}
	if got := warnings(&st); len(got) != 1 || got[0].Next != "outbox relays" || !strings.Contains(got[0].Text, "billing") {
		t.Errorf("%+v", got)
	}
	if found := warningFindings(newConfig(), &st); len(found) != 1 || found[0].Check != "settings" || found[0].Fix == "" {
		t.Errorf("%+v", found)
	}
	st.Relays[1].Settings = "a"
	if got := warnings(&st); len(got) != 0 {
		t.Errorf("%+v", got)
	}
}

// TestDestinationWords: what the relays see of a destination, and a warning only when somebody has to act.
func TestDestinationWords(t *testing.T) {
	d := outbox.DestinationStatus{Name: "billing", Relays: 1, InFlight: 2}
	wantIn(t, destinationWords(d, 3), "available  2 in flight  1 of 3 relays")
	d.Add(&outbox.Fault{Reason: "connection refused"})
	wantIn(t, destinationWords(d, 3), "unavailable  2 in flight  2 of 3 relays  (to 1 of them)  connection refused")
	if w := faultWarning(d); w != nil {
		t.Errorf("a warning that nobody can act on: %+v", w)
	}
	d.Add(&outbox.Fault{Misconfigured: true, Reason: "no exchange; make one"})
	wantIn(t, destinationWords(d, 3), "misconfigured  2 in flight  3 of 3 relays  (to 2 of them)  no exchange; make one")
	got := warnings(&outbox.Status{Relays: []outbox.RelayStatus{{Live: true}}, Destinations: []outbox.DestinationStatus{d}})
	if len(got) != 1 || got[0] != (warning{"destination billing is misconfigured: no exchange; make one", "outbox check"}) {
		t.Errorf("%+v", got)
	}
}

func TestHumanNumbers(t *testing.T) {
	for n, want := range map[int64]string{0: "0", 999: "999", 1000: "1,000", 1984210: "1,984,210", -1234: "-1,234", -123: "-123"} {
		if got := count(n); got != want {
			t.Errorf("count(%d) = %s", n, got)
		}
	}
	for d, want := range map[time.Duration]string{250 * time.Millisecond: "250ms", 4 * time.Second: "4s", 41*time.Minute + 50*time.Second: "41m",
		6*time.Hour + 2*time.Minute: "6h02m", 76 * time.Hour: "3d04h"} {
		if got := age(d); got != want {
			t.Errorf("age(%v) = %s, want %s", d, got, want)
		}
	}
	for d, want := range map[outbox.Depth]string{{Messages: 17}: "17", {Messages: 100000, AtLeast: true}: "100,000+", {Messages: 1984210, Estimated: true}: "~1,984,210"} {
		if got := depth(d); got != want {
			t.Errorf("depth(%+v) = %s, want %s", d, got, want)
		}
	}
}

func TestRelaysOfNobody(t *testing.T) {
	t.Parallel()
	r := call(t, nil, "relays", "--database-url="+migrated(t)).want(t, exitDone)
	wantIn(t, r.err, "outbox run")
	if r.out != "" {
		t.Errorf("stdout: %s", r.out)
	}
}

func TestHealth(t *testing.T) {
	t.Parallel()
	url := migrated(t)
	ask := func(code int, args ...string) result {
		t.Helper()
		return call(t, []string{"OUTBOX_DATABASE_URL=" + url}, append([]string{"health"}, args...)...).want(t, code)
	}
	ask(exitUnhealthy)
	ask(exitUnhealthy, "--any")
	fakeRelay(t, url, "web-1", 812, ">")
	ask(exitUnhealthy)
	wantIn(t, ask(exitUnhealthy, "--json").out, `{"healthy":false}`)
	ask(exitDone, "--any")
	ask(exitDone, "--host=web-1", "--pid=812")
	ask(exitUnhealthy, "--host=web-1", "--pid=813")
	wantIn(t, ask(exitDone, "--host=web-1", "--json").out, `"healthy":true`, `"host":"web-1"`)
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	fakeRelay(t, url, host, 1, ">")
	if r := ask(exitDone); r.out+r.err != "" {
		t.Errorf("not silent: %s%s", r.out, r.err)
	}
	execSQL(t, connect(t, url), "update outbox.relay set lease_until = clock_timestamp() - interval '1 second'")
	ask(exitUnhealthy, "--any")
	call(t, nil, "health", "--database-url=postgres://x@127.0.0.1:1/x?sslmode=disable").want(t, exitFailed)
}

func TestWait(t *testing.T) {
	t.Parallel()
	url := migrated(t)
	call(t, nil, "wait", "--database-url="+url).want(t, exitDone)
	call(t, nil, "publish", "--topic=a", "--database-url="+url).want(t, exitDone)
	r := call(t, nil, "wait", "--timeout=300ms", "--json", "--database-url="+url).want(t, exitFailed)
	wantIn(t, r.err, "1 ready, 0 in flight")
	wantIn(t, r.out, `"empty":false`)
	ended := make(chan result)
	go func() { ended <- call(t, nil, "wait", "--timeout=1m", "--database-url="+url) }()
	call(t, nil, "run", "--once", "--to=stdout:", "--database-url="+url).want(t, exitDone)
	(<-ended).want(t, exitDone)
}

func TestCheck(t *testing.T) {
	t.Parallel()
	url := migrated(t)
	r := call(t, nil, "check", "--to=stdout:", "--database-url="+url).want(t, exitUnhealthy)
	wantIn(t, r.out, "FOUND  relays", "→ outbox run")
	fakeRelay(t, url, "web-1", 812, "orders.>")
	version := regexp.MustCompile(`PostgreSQL [^"\n]*|within \d+ms|\d+ are free`)
	golden(t, "check", version.ReplaceAllString(anonymise(call(t, nil, "check", "--to=stdout:", "--database-url="+url).want(t, exitDone).out), "…"))
	call(t, nil, "publish", "--topic=biling.refunded", "--database-url="+url).want(t, exitDone)
	execSQL(t, connect(t, url), "alter sequence outbox.seq cache 5")
	r = call(t, nil, "check", "--to=stdout:", "--json", "--database-url="+url).want(t, exitUnhealthy)
	golden(t, "check_json", version.ReplaceAllString(anonymise(r.out), "…"))
	wantIn(t, call(t, nil, "check", "--database-url=postgres://x@127.0.0.1:1/x?sslmode=disable").want(t, exitUnhealthy).out, "FOUND  connection")
}

// TestPreflight: a destination that does not work is a finding.
func TestPreflight(t *testing.T) {
	if f := preflight(t.Context(), "events", &brokenSink{}); f.OK || f.Text != "no stream" || f.Fix == "" {
		t.Errorf("%+v", f)
	}
	if f := preflight(t.Context(), "events", &stdoutSink{}); !f.OK {
		t.Errorf("%+v", f)
	}
}

type brokenSink struct{ stdoutSink }

func (*brokenSink) Preflight(context.Context) error { return fmt.Errorf("no stream") }

// TestSecretFileRotates: a password that changed while a relay runs is used at the next connect (case 61).
func TestSecretFileRotates(t *testing.T) {
	t.Parallel()
	url := migrated(t)
	file := write(t, filepath.Join(t.TempDir(), "url"), strings.Replace(url, "postgres@", "nobody-there:old@", 1))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	out, log := &lockedBuffer{}, &lockedBuffer{}
	ended := make(chan int)
	go func() {
		ended <- run(ctx, []string{"run", "--to=stdout:", "--database-url-file=" + file, "--lease=3s"}, []string{noAdmin}, out, log)
	}()
	eventually(t, "the old secret is refused", func() bool { return strings.Contains(log.String(), "nobody-there") })
	write(t, file, url+"\n")
	call(t, nil, "publish", "--topic=a", "--database-url="+url).want(t, exitDone)
	eventually(t, "the new secret works", func() bool { return strings.Contains(out.String(), `"topic":"a"`) })
	if strings.Contains(log.String(), "old@") || strings.Contains(log.String(), ":old") {
		t.Errorf("the log shows the secret: %s", log.String())
	}
	cancel()
	if code := <-ended; code != exitDone {
		t.Errorf("exit code %d: %s", code, log.String())
	}
}
