package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// lockedBuffer is written by a running program while the test reads it.
type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// TestRunByFile: topics go where the routes say, and a stop leaves nothing behind.
func TestRunByFile(t *testing.T) {
	t.Parallel()
	url := migrated(t)
	file := configFile(t, `
database: {url: "${OUTBOX_DATABASE_URL}"}
destinations:
  events: {url: "stdout:", slots: 3}
  billing: {url: "stdout:"}
routes:
  - {topics: ["billing.>"], to: billing}
  - {topics: ["orders.>"], to: events}
`)
	env := []string{"OUTBOX_DATABASE_URL=" + url, "OUTBOX_CONFIG=" + file, "OUTBOX_LOG_FORMAT=json"}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	out, log := &lockedBuffer{}, &lockedBuffer{}
	ended := make(chan int)
	go func() { ended <- run(ctx, []string{"run"}, append(env, noAdmin), out, log) }()
	for _, topic := range []string{"orders.created", "billing.due", "other"} {
		call(t, env, "publish", "--topic", topic).want(t, exitDone)
	}
	eventually(t, "two are delivered", func() bool {
		return strings.Contains(out.String(), `"topic":"orders.created"`) && strings.Contains(out.String(), `"topic":"billing.due"`)
	})
	call(t, env, "health").want(t, exitDone)
	wantIn(t, call(t, env, "relays").want(t, exitDone).out, "billing(billing.>) events(orders.>)")
	cancel()
	if code := <-ended; code != exitDone {
		t.Fatalf("exit code %d: %s", code, log.String())
	}
	call(t, env, "health").want(t, exitUnhealthy)
	if strings.Contains(out.String(), `"other"`) {
		t.Error("a topic without a route was delivered")
	}
	wantIn(t, log.String(), `{"time":`, `"msg":"relay stopped"`)
}

func TestRunDisabled(t *testing.T) {
	t.Parallel()
	url := migrated(t)
	call(t, nil, "publish", "--topic=a", "--database-url="+url).want(t, exitDone)
	r := call(t, nil, "run", "--once", "--disable-relay", "--json", "--database-url="+url).want(t, exitDone)
	wantIn(t, r.out, `"delivered":0`)
}

func TestRunWithoutMigrating(t *testing.T) {
	t.Parallel()
	url := postgres.Database(t)
	r := call(t, nil, "run", "--to=stdout:", "--database-migrate=check", "--database-url="+url).want(t, exitFailed)
	wantIn(t, r.err, "outbox migrate up")
	call(t, nil, "run", "--to=stdout:", "--once", "--database-url="+url).want(t, exitDone)
}

// TestRunToFullDisk: when nothing can be written, no message pays for it.
func TestRunToFullDisk(t *testing.T) {
	t.Parallel()
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skip(err)
	}
	defer full.Close()
	url := migrated(t)
	call(t, nil, "publish", "--topic=a", "--max-attempts=1", "--database-url="+url).want(t, exitDone)
	log := &lockedBuffer{}
	if code := run(t.Context(), []string{"run", "--to=stdout:", "--once", "--database-url=" + url}, nil, full, log); code != exitUnhealthy {
		t.Errorf("exit code %d: %s", code, log.String())
	}
	wantIn(t, log.String(), "destination is unavailable", "no space left", "outbox run: messages remain (1 ready, ", "destination default is unavailable: ")
	wantIn(t, call(t, nil, "status", "--json", "--database-url="+url).out, `"dead":{"messages":0}`)
}

// program is the program as a process of its own.
type program struct {
	*exec.Cmd
	log *lockedBuffer
}

func start(t *testing.T, stdout io.Writer, args ...string) *program {
	t.Helper()
	return startIn(t, nil, nil, stdout, args...)
}

// startIn is start with variables of the environment and a standard input.
func startIn(t *testing.T, env []string, stdin io.Reader, stdout io.Writer, args ...string) *program {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p := &program{exec.Command(exe, args...), &lockedBuffer{}}
	p.Env = append(append(os.Environ(), envProgram+"=1", noAdmin), env...)
	p.Stdin, p.Stdout, p.Stderr = stdin, stdout, p.log
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Process.Kill() })
	return p
}

func (p *program) signal(t *testing.T, s os.Signal) {
	t.Helper()
	if err := p.Process.Signal(s); err != nil {
		t.Fatal(err)
	}
}

func (p *program) wantExit(t *testing.T, code int) {
	t.Helper()
	err := p.Wait()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	if p.ProcessState.ExitCode() != code {
		t.Errorf("exit code %d, want %d: %s", p.ProcessState.ExitCode(), code, p.log.String())
	}
}

// TestSignalStops: SIGTERM and SIGINT stop gracefully, and the relay takes itself off the list.
func TestSignalStops(t *testing.T) {
	t.Parallel()
	for _, s := range []os.Signal{syscall.SIGTERM, os.Interrupt} {
		url := migrated(t)
		out := &lockedBuffer{}
		p := start(t, out, "run", "--to=stdout:", "--database-url="+url)
		call(t, nil, "publish", "--topic=a", "--database-url="+url).want(t, exitDone)
		eventually(t, "the message is delivered", func() bool { return strings.Contains(out.String(), `"topic":"a"`) })
		p.signal(t, s)
		p.wantExit(t, exitDone)
		wantIn(t, p.log.String(), "stopping", "relay stopped")
		call(t, nil, "health", "--any", "--database-url="+url).want(t, exitUnhealthy)
	}
}

// TestSecondSignalAborts: a delivery that hangs is waited for, and no longer after a second signal; what it held is
// abandoned, and the exit code says so. The delivery hangs because nobody reads the program's output.
func TestSecondSignalAborts(t *testing.T) {
	t.Parallel()
	url := migrated(t)
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer read.Close()
	p := start(t, write, "run", "--to=stdout:", "--drain-timeout=10m", "--database-url="+url)
	write.Close()
	payload := strings.Repeat("x", 100_000) // more than a pipe holds
	call(t, nil, "publish", "--topic=a", "--payload="+payload, "--database-url="+url).want(t, exitDone)
	eventually(t, "the message is in flight", func() bool {
		return strings.Contains(call(t, nil, "status", "--json", "--database-url="+url).out, `"in_flight":1`)
	})
	p.signal(t, syscall.SIGTERM)
	eventually(t, "the first signal is noticed", func() bool { return strings.Contains(p.log.String(), "stopping") })
	begin := time.Now()
	p.signal(t, syscall.SIGTERM)
	p.wantExit(t, exitAbandoned)
	if took := time.Since(begin); took > time.Minute {
		t.Errorf("took %v", took)
	}
	wantIn(t, p.log.String(), "cancelling running deliveries", "stopped before every handler had returned")
}
