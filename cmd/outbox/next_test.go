package main

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/outboxrelay/outbox"
)

// TestNextRepeatsFlags: a command that is printed works as it stands after a call whose flags say which outbox is meant; secrets are
// not shown.
func TestNextRepeatsFlags(t *testing.T) {
	t.Parallel()
	url := migrated(t)
	dir := t.TempDir()
	secret := write(t, filepath.Join(dir, "it's the url"), url)
	config := write(t, filepath.Join(dir, "outbox.yaml"), "destinations: {events: {url: 'stdout:'}}\n")
	execSQL(t, connect(t, url), "insert into outbox.control (scope, name, actor) values ('topic', 'billing.>', 'me')")
	call(t, nil, "publish", "--topic=a", "--database-url="+url).want(t, exitDone)
	quoted := "'" + strings.ReplaceAll(secret, "'", `'\''`) + "'"
	for name, c := range map[string]struct{ args, env, want []string }{
		"the environment": {nil, []string{"OUTBOX_DATABASE_URL=" + url}, []string{"→ outbox resume --topic 'billing.>'\n", "→ outbox run --help\n"}},
		"a destination":   {nil, []string{"OUTBOX_DATABASE_URL=" + url, "OUTBOX_TO=stdout:"}, []string{"→ outbox run\n"}},
		"a URL":           {[]string{"--database-url=" + url}, []string{"OUTBOX_TO=stdout:"}, []string{"→ outbox run --database-url '" + url + "'\n"}},
		"files": {[]string{"-c", config, "--database-url-file", secret, "--database-schema", "outbox"}, nil,
			[]string{"→ outbox resume --topic 'billing.>' --config " + config + " --database-url-file " + quoted + " --database-schema outbox\n"}},
		"a secret": {[]string{"--database-url=" + strings.Replace(url, "postgres@", "postgres:hush@", 1)}, []string{"OUTBOX_TO=stdout:"}, []string{"→ outbox run\n"}},
	} {
		r := call(t, c.env, append([]string{"status"}, c.args...)...).want(t, exitDone)
		wantIn(t, r.out, c.want...)
		if strings.Contains(r.out, "hush") {
			t.Errorf("%s: a secret is shown: %s", name, r.out)
		}
		j := decode[statusJSON](t, call(t, c.env, append([]string{"status", "--json"}, c.args...)...).want(t, exitDone))
		if next := arrow + j.Pauses[0].Next + "\n"; len(c.want) > 0 && strings.Contains(c.want[0], "resume") && next != c.want[0] {
			t.Errorf("%s: as JSON %q", name, next)
		}
	}
	// What looks at a relay's configuration repeats it, for its own kind only.
	flags := []string{"check", "--database-url=" + url, "--to=stdout:", "--keep-delivered=30d", "--archive-payload=false", "--create"}
	wantIn(t, call(t, nil, "check", "--database-url="+url, "--to=stdout:", "--keep-delivered=30d", "--archive-payload=false").want(t, exitUnhealthy).out,
		"→ outbox run --database-url '"+url+"' --to stdout: --keep-delivered 30d --archive-payload=false\n")
	call(t, nil, flags...).want(t, exitUsage)
	fakeRelay(t, url, "web-1", 812, "orders.>")
	fakeRelay(t, url, "web-2", 812, "orders.>")
	execSQL(t, connect(t, url), "update outbox.relay set settings_digest = host")
	wantIn(t, call(t, nil, "check", "--database-url="+url, "--to=stdout:").want(t, exitUnhealthy).out, "→ outbox relays --database-url '"+url+"'\n")
}

// TestTroubles: what live relays tell of themselves is a warning and a finding; what those told that have lapsed is not.
func TestTroubles(t *testing.T) {
	relay := outbox.RelayStatus{Host: "web-1", PID: 812, Live: true, Counters: map[string]int64{"stuck": 2}, ArchiveRefusal: "no partition"}
	st := outbox.Status{Relays: []outbox.RelayStatus{relay}}
	if got, found := warnings(&st), warningFindings(newConfig(), &st); len(got) != 2 || len(found) != 2 || found[0].Text != got[0].Text ||
		!strings.Contains(got[0].Text, "web-1/pid 812: 2 messages") || !strings.Contains(got[1].Text, "no partition") || got[0].Next != "outbox relays" {
		t.Errorf("%+v, %+v", got, found)
	}
	st.Relays[0].Live = false
	if got := warnings(&st); len(got) != 0 {
		t.Errorf("%+v", got)
	}
}

// TestGrows: only a long and old backlog that gets longer while all destinations take messages is told of.
func TestGrows(t *testing.T) {
	growing := func() outbox.Status {
		return outbox.Status{Depths: outbox.Depths{Ready: outbox.Depth{Messages: 10_000}}, OldestEligible: 2 * time.Minute, InPerSecond: 310, OutPerSecond: 120,
			Relays: []outbox.RelayStatus{{Live: true}}, Destinations: []outbox.DestinationStatus{{Name: "events", Relays: 1}}}
	}
	for name, c := range map[string]struct {
		change func(*outbox.Status)
		told   bool
	}{
		"growing":       {func(*outbox.Status) {}, true},
		"short":         {func(st *outbox.Status) { st.Ready.Messages = 9_999 }, false},
		"young":         {func(st *outbox.Status) { st.OldestEligible = time.Minute }, false},
		"getting less":  {func(st *outbox.Status) { st.OutPerSecond = 310 }, false},
		"without relay": {func(st *outbox.Status) { st.Relays = nil }, false},
		"down":          {func(st *outbox.Status) { st.Destinations[0].Fault = &outbox.Fault{Reason: "connection refused"} }, false},
	} {
		st := growing()
		c.change(&st)
		told := false
		for _, w := range warnings(&st) {
			told = told || strings.Contains(w.Text, "more is published than delivered")
		}
		if told != c.told {
			t.Errorf("%s: told %v", name, told)
		}
	}
}

// TestRouteFor: what check says of a topic that nobody delivers is what its configuration lacks.
func TestRouteFor(t *testing.T) {
	one, two := newConfig(), newConfig()
	one.destinations = []*destination{{name: "events"}}
	one.routes = []route{{topics: []string{"orders.>"}, to: "events"}}
	two.destinations = []*destination{{name: "events"}, {name: "billing"}}
	two.routes = []route{{topics: []string{"orders.>"}, to: "events"}, {topics: []string{"billing.>"}, to: "billing"}}
	for name, c := range map[string]struct {
		c          *config
		topic, fix string
	}{
		"no destination":  {newConfig(), "a", "outbox relays"},
		"one":             {one, "a", `add to the routes, and restart the relays: - {topics: ["a"], to: events}`},
		"two":             {two, "a", `add to the routes, and restart the relays: - {topics: ["a"], to: events}  # or billing`},
		"not yet started": {two, "billing.paid", "outbox run"},
	} {
		if _, fix := c.c.routeFor(c.topic); fix != c.fix {
			t.Errorf("%s: %s", name, fix)
		}
	}
}

// TestHostileHome: what somebody has written into the settings does not steer the terminal of who checks, and is no command.
func TestHostileHome(t *testing.T) {
	t.Parallel()
	url := migrated(t)
	execSQL(t, connect(t, url), "update outbox.setting set value = E'\\x1b[2J\\n→ outbox discard --all --yes' where name = 'home'")
	r := call(t, nil, "check", "--to=stdout:", "--database-url="+url).want(t, exitUnhealthy)
	if strings.Contains(r.out, "\x1b") {
		t.Errorf("%q steers a terminal", r.out)
	}
	for line := range strings.Lines(r.out) {
		if strings.HasPrefix(strings.TrimSpace(line), arrow+"outbox discard") {
			t.Errorf("a fix that is none: %q", line)
		}
	}
}
