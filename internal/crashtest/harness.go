//go:build unix

package crashtest

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/outboxrelay/outbox/internal/failpoint"
	"github.com/outboxrelay/outbox/internal/history"
)

// Harness runs the processes of one test and keeps their history. Its methods fail the test when they do not
// succeed, and may be called from the test's goroutine only.
type Harness struct {
	// Patience is how long any wait may take before the test fails. Default a minute.
	Patience time.Duration

	t         testing.TB
	dir       string
	log       *history.Log
	processes []*Process
}

// Options say how a process differs from the others of its role.
type Options struct {
	// Name is that of the process in the history; no two of a test share one. Default: the role and a number.
	Name string
	// Env is added to the environment of the test, as NAME=value.
	Env []string
	// Failpoint configures points (see package failpoint). The program must be built with the tag failpoint;
	// a point's line is awaited like any other announcement.
	Failpoint string
	// Program is run in place of the test binary, with these arguments; it must call Main too.
	Program string
	Args    []string
}

// New makes a harness; everything that it starts ends with the test. If the test fails, what the processes
// wrote to standard error is in its log.
func New(t testing.TB) *Harness {
	t.Helper()
	h := &Harness{Patience: time.Minute, t: t, dir: t.TempDir()}
	log, err := history.Open(h.dir, "harness")
	h.must(err)
	h.log = log
	t.Cleanup(h.close)
	return h
}

// Start runs a process in the role.
func (h *Harness) Start(role string, o Options) *Process {
	h.t.Helper()
	p, err := h.start(role, o)
	h.must(err)
	return p
}

func (h *Harness) start(role string, o Options) (*Process, error) {
	if o.Failpoint != "" && o.Program == "" && !failpoint.Enabled {
		return nil, fmt.Errorf("start %s: failpoint %q needs the build tag failpoint", role, o.Failpoint)
	}
	name := cmp.Or(o.Name, fmt.Sprintf("%s-%d", role, len(h.processes)+1))
	for _, other := range h.processes {
		if other.Name == name {
			return nil, fmt.Errorf("start %s: there was a process named %q already", role, name)
		}
	}
	p := &Process{Name: name, harness: h, done: make(chan struct{}), lines: announcements{more: make(chan struct{})}}
	if err := p.start(role, o, h.dir); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	h.processes = append(h.processes, p)
	return p, nil
}

func (p *Process) start(role string, o Options, dir string) error {
	program := o.Program
	if program == "" {
		self, err := os.Executable()
		if err != nil {
			return err
		}
		program = self
	}
	p.cmd = exec.Command(program, o.Args...)
	p.cmd.Env = append(os.Environ(), roleEnv+"="+role, nameEnv+"="+p.Name, historyEnv+"="+dir)
	if o.Failpoint != "" {
		p.cmd.Env = append(p.cmd.Env, failpoint.PointsEnv+"="+o.Failpoint, fmt.Sprintf("%s=%d", failpoint.FDEnv, announceFD))
	}
	p.cmd.Env = append(p.cmd.Env, o.Env...)
	p.cmd.Stderr = &p.stderr
	p.cmd.Stdout = &p.stderr
	p.cmd.WaitDelay = 5 * time.Second // a grandchild may keep its standard error open
	return p.launch()
}

func (p *Process) launch() error {
	announced, announce, err := os.Pipe()
	if err != nil {
		return err
	}
	p.cmd.ExtraFiles = []*os.File{announce} // number 3
	stdin, err := p.cmd.StdinPipe()
	if err == nil {
		err = p.cmd.Start()
	}
	announce.Close()
	if err != nil {
		return errors.Join(err, announced.Close())
	}
	p.stdin = stdin
	go p.run(announced)
	return nil
}

// Log is the harness's own log, for what the test itself does, such as stopping the database.
func (h *Harness) Log() *history.Log { return h.log }

// History reads what was logged until now.
func (h *Harness) History() []history.Event {
	h.t.Helper()
	events, err := history.ReadDir(h.dir)
	h.must(err)
	return events
}

// Check fails the test if the history breaks a promise, and returns what it counted.
func (h *Harness) Check(o history.Options) history.Counts {
	h.t.Helper()
	report := history.Check(h.History(), o)
	if err := report.Err(); err != nil {
		h.t.Error(err)
	}
	return report.Counts
}

func (h *Harness) must(err error) {
	h.t.Helper()
	if err != nil {
		h.t.Fatal(err)
	}
}

func (h *Harness) close() {
	for _, p := range h.processes {
		if err := p.end(); err != nil {
			h.t.Errorf("a process died that nobody killed: %v", err)
		}
		if h.t.Failed() && p.stderr.String() != "" {
			h.t.Logf("%s wrote:\n%s", p.Name, p.stderr.String())
		}
	}
	if err := h.log.Close(); err != nil {
		h.t.Error(err)
	}
}
