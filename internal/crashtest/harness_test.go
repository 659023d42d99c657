//go:build unix

package crashtest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/outboxrelay/outbox/internal/failpoint"
	"github.com/outboxrelay/outbox/internal/history"
)

func TestMain(m *testing.M) {
	os.Exit(Main(m, map[string]Role{
		"idle": idle, "deliver": deliver, "fail": fail, "die": die, "points": points, "stubborn": stubborn,
	}))
}

func idle(ctx context.Context, c *Child) error {
	if err := c.Announce("ready " + os.Getenv("GREETING")); err != nil {
		return err
	}
	<-ctx.Done()
	return ctx.Err()
}

// deliver publishes and delivers one message after another until it is stopped.
func deliver(ctx context.Context, c *Child) error {
	for n := int64(1); ctx.Err() == nil; n++ {
		e := history.Event{Message: fmt.Sprintf("%s/%d", c.Name, n), Relay: c.Name, Destination: "d", Seq: n, Outcome: history.OutcomeDelivered}
		for _, kind := range []history.Kind{history.Publishing, history.Committed, history.Begun, history.Accepted, history.Settled} {
			e.Kind = kind
			if err := c.Log.Append(e); err != nil {
				return err
			}
		}
		if err := c.Announce(fmt.Sprint("settled ", n)); err != nil {
			return err
		}
	}
	return nil
}

func fail(context.Context, *Child) error {
	fmt.Fprintln(os.Stderr, "something on standard error")
	return errors.New("the role failed")
}

func die(ctx context.Context, c *Child) error { panic("the role panicked") }

func points(ctx context.Context, c *Child) error {
	for n := 1; ctx.Err() == nil; n++ {
		failpoint.Hit("step")
		if err := c.Announce(fmt.Sprint("passed ", n)); err != nil {
			return err
		}
	}
	return nil
}

func stubborn(_ context.Context, c *Child) error {
	if err := c.Announce("ready"); err != nil {
		return err
	}
	for {
		time.Sleep(time.Hour)
	}
}

// recorder is a test whose failures are the subject. It runs its functions in a goroutine, as Fatal ends one.
type recorder struct {
	testing.TB
	cleanups []func()
	failures []string
	logs     []string
}

func (r *recorder) Helper()          {}
func (r *recorder) Cleanup(f func()) { r.cleanups = append(r.cleanups, f) }
func (r *recorder) Failed() bool     { return len(r.failures) > 0 }
func (r *recorder) Error(args ...any) {
	r.failures = append(r.failures, fmt.Sprint(args...))
}
func (r *recorder) Errorf(format string, args ...any) { r.Error(fmt.Sprintf(format, args...)) }
func (r *recorder) Logf(format string, args ...any) {
	r.logs = append(r.logs, fmt.Sprintf(format, args...))
}
func (r *recorder) Fatal(args ...any) {
	r.Error(args...)
	runtime.Goexit()
}

// record runs a test on a harness of its own and returns what it reported, with its log.
func record(t *testing.T, test func(h *Harness)) (failures, logs string) {
	t.Helper()
	r := &recorder{TB: t}
	done := make(chan struct{})
	go func() {
		defer close(done)
		test(New(r))
	}()
	<-done
	for _, f := range slices.Backward(r.cleanups) {
		f()
	}
	return strings.Join(r.failures, "\n"), strings.Join(r.logs, "\n")
}

func kinds(events []history.Event, process string) string {
	var all []string
	for _, e := range events {
		if e.Process == process && e.Message == "" {
			all = append(all, string(e.Kind))
		}
	}
	return strings.Join(all, " ")
}

func TestProcessRunsUntilTerminated(t *testing.T) {
	h := New(t)
	p := h.Start("idle", Options{Env: []string{"GREETING=to you"}})
	p.Await("ready to you")
	p.Terminate()
	if got := kinds(h.History(), "idle-1"); got != "process_started process_exited" {
		t.Fatal(got)
	}
}

func TestKilledAtWorkLeavesAHistoryWithoutViolations(t *testing.T) {
	h := New(t)
	var running []*Process
	for range 3 {
		running = append(running, h.Start("deliver", Options{}))
	}
	for _, p := range running {
		p.Await("settled 20")
		p.Kill()
	}
	counts := h.Check(history.Options{Undrained: true})
	if counts.Deaths != 3 || counts.Accepted < 60 {
		t.Fatalf("%+v", counts)
	}
	if got := kinds(h.History(), "deliver-2"); got != "process_started process_killed process_died" {
		t.Fatal(got)
	}
}

func TestSuspendedDoesNothingUntilResumed(t *testing.T) {
	h := New(t)
	p := h.Start("deliver", Options{Name: "d"})
	p.Await("settled 5")
	p.Suspend()
	awaitState(t, p, "T")
	before := len(h.History())
	for range 50 { // it would write hundreds of events in the time that this takes
		if now := len(h.History()); now != before {
			t.Fatalf("a suspended process wrote %d events", now-before)
		}
	}
	p.Resume()
	deadline := time.Now().Add(h.Patience)
	for len(h.History()) < before+100 {
		if time.Now().After(deadline) {
			t.Fatal("not resumed")
		}
	}
	p.Terminate()
	if got := kinds(h.History(), "d"); got != "process_started process_suspended process_continued process_exited" {
		t.Fatal(got)
	}
}

// awaitState waits until the system says that the process is in a state: T is stopped.
func awaitState(t *testing.T, p *Process, state string) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.PID()))
		if err != nil {
			t.Skipf("the state of a process is not known here: %v", err)
		}
		if _, rest, _ := strings.Cut(string(stat), ") "); strings.HasPrefix(rest, state) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("process is not in state %s: %s", state, stat)
		}
	}
}

func TestAwaitDeath(t *testing.T) {
	h := New(t)
	h.Start("die", Options{}).AwaitDeath()
	failures, _ := record(t, func(h *Harness) {
		p := h.Start("idle", Options{})
		p.Await("ready ")
		h.must(p.cmd.Process.Signal(syscall.SIGTERM))
		p.AwaitDeath()
	})
	if !strings.Contains(failures, "ended in order and should have died") {
		t.Fatalf("reported %q", failures)
	}
}

func TestHarnessReportsFailures(t *testing.T) {
	for _, c := range []struct {
		name, want, log string
		test            func(h *Harness)
	}{
		{"failed role", "fail-1: exit status 1", "the role failed", func(h *Harness) { h.Start("fail", Options{}).Wait() }},
		{"standard error", "fail-1: exit status 1", "something on standard error", func(h *Harness) { h.Start("fail", Options{}).Wait() }},
		{"ended before announcing", `die-1 ended (exit status 2) without announcing "ready"`, "the role panicked", func(h *Harness) {
			h.Start("die", Options{}).Await("ready")
		}},
		{"died unnoticed", "a process died that nobody killed: die-1: exit status 2", "the role panicked", func(h *Harness) {
			<-h.Start("die", Options{}).Done()
		}},
		{"never announced", `idle-1 has not announced "sleepy": context deadline exceeded; announced since: []`, "", func(h *Harness) {
			p := h.Start("idle", Options{})
			p.Await("ready ")
			h.Patience = 20 * time.Millisecond
			p.Await("sleepy")
		}},
		{"awaited twice, announced once", `has not announced "ready "`, "", func(h *Harness) {
			p := h.Start("idle", Options{})
			p.Await("ready ")
			h.Patience = 20 * time.Millisecond
			p.Await("ready ")
		}},
		{"never ended", "stubborn-1 has not ended within 20ms", "", func(h *Harness) {
			p := h.Start("stubborn", Options{})
			p.Await("ready")
			h.Patience = 20 * time.Millisecond
			p.Terminate()
		}},
		{"unknown role", "dance-1: exit status 2", `role "dance" is not one`, func(h *Harness) { h.Start("dance", Options{}).Wait() }},
		{"the same name twice", `there was a process named "x" already`, "", func(h *Harness) {
			h.Start("idle", Options{Name: "x"}).Await("ready ")
			h.Start("idle", Options{Name: "x"})
		}},
		{"no such program", "start idle-1:", "", func(h *Harness) { h.Start("idle", Options{Program: "/does/not/exist"}) }},
		{"a violation", "phantom: message m was delivered by harness but never published", "", func(h *Harness) {
			h.must(h.Log().Append(history.Event{Kind: history.Begun, Message: "m", Relay: "r", Destination: "d"}))
			h.Check(history.Options{})
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			failures, logs := record(t, c.test)
			if !strings.Contains(failures, c.want) || !strings.Contains(logs, c.log) {
				t.Fatalf("reported %q and logged %q; want %q and %q", failures, logs, c.want, c.log)
			}
		})
	}
}

func TestEverythingEndsWithTheTest(t *testing.T) {
	var ps []*Process
	failures, _ := record(t, func(h *Harness) {
		for _, role := range []string{"stubborn", "idle", "deliver"} {
			ps = append(ps, h.Start(role, Options{}))
		}
		ps[0].Await("ready")
		ps[1].Await("ready ")
		ps[1].Suspend()
	})
	if failures != "" {
		t.Fatal(failures)
	}
	for _, p := range ps {
		if p.cmd.ProcessState == nil {
			t.Errorf("%s is not gone", p.Name)
		}
	}
}

// A test binary that dies closes the standard input of its children.
func TestChildEndsWithItsHarness(t *testing.T) {
	h := New(t)
	p := h.Start("stubborn", Options{})
	p.Await("ready")
	p.stdin.Close()
	p.AwaitDeath()
	if p.exit.Error() != "exit status 3" {
		t.Fatal(p.exit)
	}
}
