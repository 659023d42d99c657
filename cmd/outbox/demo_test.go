package main

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/outboxrelay/outbox/internal/demo"
	"github.com/outboxrelay/outbox/internal/devservices"
)

// demoEnv makes the demo's relays this program: they run the executable of the demo, which is the test's.
var demoEnv = []string{envProgram + "=1"}

// children of this process, of which the demo must leave none.
func children(t *testing.T) []int {
	t.Helper()
	pids, err := devservices.Children(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(pids)
	return pids
}

func wantChildren(t *testing.T, want []int) {
	t.Helper()
	if got := children(t); !slices.Equal(got, want) {
		t.Errorf("processes %v, want %v as before", got, want)
	}
}

// TestDemo: with private services, for people.
func TestDemo(t *testing.T) {
	postgres.Cluster(t) // it skips without PostgreSQL, and is started before the children are listed
	before := children(t)
	r := call(t, demoEnv, "demo", "--orders=400").want(t, exitDone)
	wantIn(t, r.out, "committed 400 orders", "40 other transactions were rolled back", "of 400 committed",
		"Nothing lost, nothing invented, every key in order", "Next:\n  outbox init", "are gone again")
	wantIn(t, r.err, "relay 1 is killed (SIGKILL) while it holds ", "relay 2 has them")
	wantChildren(t, before)
}

// TestDemoJSON: with existing services, which keep nothing of it, and relays that ignore the user's settings.
func TestDemoJSON(t *testing.T) {
	url, server := postgres.Database(t), natsServer(t)
	before := children(t)
	env := append([]string{"OUTBOX_TO=stdout:", "OUTBOX_LEASE=5m", "OUTBOX_DATABASE_URL=postgres://nowhere/x"}, demoEnv...)
	r := call(t, env, "demo", "--orders=100", "--json", "--database="+url, "--to="+server.URL()).want(t, exitDone)
	shape := regexp.MustCompile(`^\{"committed":100,"rolled_back":10,"delivered":100,"lost":0,"phantom":0,"duplicates":\d+,` +
		`"killed_with_in_flight":[1-9]\d*,"order_violations":0,"seconds":\d+(\.\d+)?\}\n$`)
	if !shape.MatchString(r.out) {
		t.Errorf("stdout: %s", r.out)
	}
	wantChildren(t, before)
	var schemas int
	if err := connect(t, url).QueryRow(t.Context(), "select count(*) from pg_namespace where nspname like 'outbox%'").Scan(&schemas); err != nil || schemas != 0 {
		t.Errorf("%d schemas are left, %v", schemas, err)
	}
	if names := streamNames(t, jetStream(t, server.URL())); len(names) != 0 {
		t.Errorf("streams %q are left", names)
	}
}

// TestDemoEvents: real events, committed, delivered and in order. The variable names a file of JSON lines.
func TestDemoEvents(t *testing.T) {
	t.Parallel()
	file := os.Getenv("OUTBOX_TEST_EVENTS")
	if file == "" {
		t.Skip("OUTBOX_TEST_EVENTS is not set")
	}
	postgres.Cluster(t)
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Count(strings.TrimSpace(string(text)), "\n") + 1
	got := decode[demo.Summary](t, call(t, demoEnv, "demo", "--json", "--file", file).want(t, exitDone))
	if got.Committed != lines || got.Delivered != lines || got.RolledBack == 0 || got.KilledInFlight == 0 ||
		got.Lost+got.Phantom+got.OrderViolations != 0 {
		t.Errorf("%d lines: %+v", lines, got)
	}
}

// TestDemoFile: what lines say about topic, key, headers and payload is delivered, and nothing about times.
func TestDemoFile(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	t.Parallel()
	postgres.Cluster(t)
	line := `{"topic":"a.b","key":"k","headers":{"x":"y"},"payload":{"a":  1},"delay_seconds":1000,"dedup_key":"d","id":"0190f3a0-0000-7000-8000-000000000001"}`
	file := write(t, filepath.Join(t.TempDir(), "lines"), strings.Repeat(line+"\n\n", 12))
	got := decode[demo.Summary](t, call(t, demoEnv, "demo", "--json", "--file", file).want(t, exitDone))
	if got.Committed != 12 || got.Delivered != 12 {
		t.Errorf("%+v", got)
	}
}

func jetStream(t *testing.T, url string) jetstream.JetStream {
	t.Helper()
	conn, err := nats.Connect(url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	js, err := jetstream.New(conn)
	if err != nil {
		t.Fatal(err)
	}
	return js
}

func streamNames(t *testing.T, js jetstream.JetStream) (names []string) {
	t.Helper()
	list := js.StreamNames(t.Context())
	for name := range list.Name() {
		names = append(names, name)
	}
	if err := list.Err(); err != nil {
		t.Fatal(err)
	}
	return names
}

// TestDemoFails: when the stream loses a message and gets a foreign one, the demo says so.
func TestDemoFails(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	t.Parallel()
	url, server := postgres.Database(t), natsServer(t)
	js := jetStream(t, server.URL())
	ended := make(chan result)
	go func() {
		ended <- call(t, demoEnv, "demo", "--orders=100", "--json", "--database="+url, "--to="+server.URL())
	}()
	var stream jetstream.Stream
	eventually(t, "the stream holds a message", func() bool {
		for _, name := range streamNames(t, js) {
			s, err := js.Stream(t.Context(), name)
			if err == nil && s.CachedInfo().State.Msgs > 0 {
				stream = s
			}
		}
		return stream != nil
	})
	if err := stream.DeleteMsg(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	if _, err := js.Publish(t.Context(), stream.CachedInfo().Config.Name+".foreign", nil); err != nil {
		t.Fatal(err)
	}
	r := (<-ended).want(t, exitFailed)
	got := decode[demo.Summary](t, r)
	if got.Lost != 1 || got.Phantom != 1 || got.Delivered != 99 {
		t.Errorf("%+v", got)
	}
	wantIn(t, r.err, "lost 1, phantom 1, out of order 0")
}

// TestDemoVerdict: each verdict is an exit code and a text.
func TestDemoVerdict(t *testing.T) {
	for _, c := range []struct {
		verdict demo.Verdict
		code    int
	}{
		{demo.Verdict{Committed: 2, Delivered: 2}, exitDone},
		{demo.Verdict{Committed: 2, Delivered: 2, Duplicates: 3}, exitDone},
		{demo.Verdict{Committed: 2, Delivered: 1, Lost: 1, Findings: []string{"message x"}}, exitFailed},
		{demo.Verdict{Committed: 2, Delivered: 2, Phantom: 1, Findings: []string{"message x"}}, exitFailed},
		{demo.Verdict{Committed: 2, Delivered: 2, OrderViolations: 1, Findings: []string{"message x"}}, exitFailed},
	} {
		var out strings.Builder
		a := &app{stdout: &out}
		err := a.showDemo(&demo.Result{Verdict: c.verdict, Took: time.Second})
		code, says := exitDone, "Nothing lost"
		var f *failure
		if errors.As(err, &f) {
			code, says = f.code, "FAILED in 1.0 s"
		}
		if code != c.code {
			t.Errorf("%+v: exit code %d, want %d", c.verdict, code, c.code)
		}
		wantIn(t, out.String(), append(c.verdict.Findings, says)...)
	}
}

var relayProcess = regexp.MustCompile(`relay (\d) runs \(process (\d+)\)`)

// TestDemoSignals: Ctrl-C ends the relay and the servers; and when the demo itself is killed, nothing outlives it.
func TestDemoSignals(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	t.Parallel()
	postgres.Cluster(t)
	for _, s := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGKILL} {
		t.Run(s.String(), func(t *testing.T) {
			p := start(t, nil, "demo", "--orders=5000")
			var relay int
			eventually(t, "the second relay runs", func() bool {
				for _, m := range relayProcess.FindAllStringSubmatch(p.log.String(), -1) {
					if m[1] == "2" {
						relay, _ = strconv.Atoi(m[2])
					}
				}
				return relay != 0
			})
			servers, err := devservices.Children(p.Process.Pid)
			if err != nil || len(servers) < 3 {
				t.Fatalf("children %v: want the relay and two supervisors; %v", servers, err)
			}
			p.signal(t, s)
			if s == syscall.SIGKILL {
				var exit *exec.ExitError
				if err := p.Wait(); !errors.As(err, &exit) {
					t.Fatal(err)
				}
			} else {
				p.wantExit(t, exitFailed)
				wantIn(t, p.log.String(), "interrupted")
			}
			for _, pid := range servers {
				eventually(t, "process "+strconv.Itoa(pid)+" is gone", func() bool { return syscall.Kill(pid, 0) != nil })
			}
		})
	}
}

// TestDemoCancelled: the same from inside.
func TestDemoCancelled(t *testing.T) {
	postgres.Cluster(t)
	before := children(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	log, ended := &lockedBuffer{}, make(chan int)
	go func() { ended <- run(ctx, []string{"demo"}, demoEnv, log, log) }()
	eventually(t, "the first relay runs", func() bool { return strings.Contains(log.String(), "relay 1 runs") })
	cancel()
	if code := <-ended; code != exitFailed {
		t.Errorf("exit code %d: %s", code, log.String())
	}
	wantChildren(t, before)
}

// TestDemoNextSteps: the commands that the report ends with are right; the one that runs is checked by config, which
// has its flags.
func TestDemoNextSteps(t *testing.T) {
	t.Parallel()
	r := &demo.Result{}
	_, steps, found := strings.Cut(r.Report(), "Next:\n")
	if !found {
		t.Fatal("no next steps")
	}
	url := migrated(t)
	for line := range strings.Lines(steps) {
		line = strings.ReplaceAll(strings.TrimSpace(line), "postgres://localhost/shop", url)
		command, _, _ := strings.Cut(line, " >")
		args := strings.Fields(strings.ReplaceAll(command, "'", ""))[1:]
		if args[0] == "run" {
			args[0] = "config"
		}
		call(t, nil, args...).want(t, exitDone)
	}
}
