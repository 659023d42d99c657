//go:build unix

package crashtest

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/outboxrelay/outbox/internal/history"
)

// Process is a child process. Its methods fail the test when they do not succeed, and may be called from the
// test's goroutine only.
type Process struct {
	Name string

	harness *Harness
	cmd     *exec.Cmd
	stdin   io.Closer // held open; its end tells the child that the harness is gone
	stderr  tail
	lines   announcements
	done    chan struct{} // closed when the process is gone and all that it wrote was read
	exit    error         // of cmd.Wait; read after done
	judged  bool          // the test knows how it ended
}

// PID is the process's id in the system.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Await waits until the process has announced the line (since the last Await of the same line, if any).
func (p *Process) Await(line string) {
	p.harness.t.Helper()
	ctx, cancel := context.WithTimeout(p.harness.t.Context(), p.harness.Patience)
	defer cancel()
	p.harness.must(p.await(ctx, line))
}

func (p *Process) await(ctx context.Context, line string) error {
	for {
		changed := p.lines.changed()
		if p.lines.take(line) {
			return nil
		}
		select {
		case <-changed:
		case <-p.done:
			if p.lines.take(line) {
				return nil
			}
			return fmt.Errorf("%s ended (%v) without announcing %q", p.Name, p.exit, line)
		case <-ctx.Done():
			return fmt.Errorf("%s has not announced %q: %w; announced since: %q", p.Name, line, ctx.Err(), p.lines.untaken())
		}
	}
}

// Kill writes Killed into the history, sends SIGKILL and waits until the process is gone.
func (p *Process) Kill() {
	p.harness.t.Helper()
	p.harness.must(p.signal(history.Killed, syscall.SIGKILL))
	p.harness.must(p.awaitEnd())
}

// Suspend stops the process with SIGSTOP, to be continued by Resume.
func (p *Process) Suspend() {
	p.harness.t.Helper()
	p.harness.must(p.signal(history.Suspended, syscall.SIGSTOP))
}

// Resume continues a suspended process.
func (p *Process) Resume() {
	p.harness.t.Helper()
	p.harness.must(p.signal(history.Continued, syscall.SIGCONT))
}

// Terminate asks the process to stop in order and waits for it; it must exit without an error. Await an
// announcement first: a process that has not come to its role yet dies of the signal.
func (p *Process) Terminate() {
	p.harness.t.Helper()
	p.harness.must(p.cmd.Process.Signal(syscall.SIGTERM))
	p.Wait()
}

// Wait waits until the process has ended by itself; it must have exited without an error.
func (p *Process) Wait() {
	p.harness.t.Helper()
	p.harness.must(p.awaitEnd())
	p.harness.must(p.failure())
}

// AwaitDeath waits until the process has died by itself, as by a panic or os.Exit(1) of its own.
func (p *Process) AwaitDeath() {
	p.harness.t.Helper()
	p.harness.must(p.awaitEnd())
	if p.exit == nil {
		p.harness.must(fmt.Errorf("%s ended in order and should have died", p.Name))
	}
}

// Done is closed when the process is gone.
func (p *Process) Done() <-chan struct{} { return p.done }

// signal writes the event before the signal is sent: what follows from it comes later in the history.
func (p *Process) signal(kind history.Kind, s syscall.Signal) error {
	if err := p.harness.log.Append(history.Event{Kind: kind, Process: p.Name}); err != nil {
		return err
	}
	if err := p.cmd.Process.Signal(s); err != nil {
		return fmt.Errorf("send %v to %s: %w", s, p.Name, err)
	}
	return nil
}

func (p *Process) awaitEnd() error {
	timeout := time.NewTimer(p.harness.Patience)
	defer timeout.Stop()
	select {
	case <-p.done:
		p.judged = true
		return nil
	case <-timeout.C:
		return fmt.Errorf("%s has not ended within %v", p.Name, p.harness.Patience)
	}
}

func (p *Process) failure() error {
	if p.exit != nil {
		return fmt.Errorf("%s: %w", p.Name, p.exit)
	}
	return nil
}

// run reads what the process announces and waits for its end, which it writes into the history.
func (p *Process) run(announced *os.File) {
	defer close(p.done)
	p.lines.read(announced)
	p.exit = p.cmd.Wait()
	kind, detail := history.Exited, ""
	if p.exit != nil {
		kind, detail = history.Died, p.exit.Error()
	}
	if err := p.harness.log.Append(history.Event{Kind: kind, Process: p.Name, Detail: detail}); err != nil {
		p.exit = errors.Join(p.exit, err)
	}
}

// end makes sure that the process is gone. A process that died unnoticed is the error.
func (p *Process) end() (err error) {
	select {
	case <-p.done:
		if !p.judged {
			err = p.failure()
		}
	default:
	}
	_ = p.cmd.Process.Kill() // it may be gone already
	p.stdin.Close()
	<-p.done
	return err
}

// announcements are the lines that were announced and not yet awaited.
type announcements struct {
	mu    sync.Mutex
	lines []string
	more  chan struct{} // closed and replaced when a line comes
}

func (a *announcements) read(in *os.File) {
	defer in.Close()
	for s := bufio.NewScanner(in); s.Scan(); {
		a.mu.Lock()
		a.lines = append(a.lines, s.Text())
		close(a.more)
		a.more = make(chan struct{})
		a.mu.Unlock()
	}
}

func (a *announcements) changed() <-chan struct{} {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.more
}

func (a *announcements) take(line string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	i := slices.Index(a.lines, line)
	if i < 0 {
		return false
	}
	a.lines = slices.Delete(a.lines, i, i+1)
	return true
}

func (a *announcements) untaken() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.lines)
}

// tail keeps the end of what was written to it.
type tail struct {
	mu   sync.Mutex
	text []byte
}

const tailBytes = 64 << 10

func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, b...)
	if over := len(t.text) - tailBytes; over > 0 {
		t.text = slices.Delete(t.text, 0, over)
	}
	return len(b), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(bytes.TrimSpace(t.text))
}
