package demo

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"
)

// lease is short: so long a killed relay's messages wait for another one.
const lease = 2 * time.Second

// relay is a relay as a process of its own.
type relay struct {
	number int
	name   string // of its database sessions
	cmd    *exec.Cmd
	log    tail
	ended  chan struct{}
	err    error // how it ended
}

// startRelay runs this program's relay.
func startRelay(cfg *Config, s *services, number int) (*relay, error) {
	r := &relay{number: number, name: fmt.Sprintf("%s_relay_%d", s.name, number), ended: make(chan struct{})}
	r.cmd = exec.Command(cfg.Program, "run", "--database-schema="+s.database.schema(), "--database-migrate=check", "--stream="+s.name,
		"--subject="+s.name+".{topic}", "--lease="+lease.String(), "--drain-timeout=5s")
	r.cmd.Env = relayEnv(cfg.Env, "OUTBOX_DATABASE_URL="+s.database.url(), "OUTBOX_TO="+s.to, "PGAPPNAME="+r.name,
		"OUTBOX_ADMIN_LISTEN=off") // two of them would want the same address
	r.cmd.Stdout, r.cmd.Stderr = &r.log, &r.log
	r.cmd.SysProcAttr = procAttr()
	started := make(chan error)
	go r.run(started)
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start relay %d: %w", number, err)
	}
	return r, nil
}

// run starts the process and waits for it, on one thread: on Linux the process is killed when that ends.
func (r *relay) run(started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer close(r.ended)
	err := r.cmd.Start()
	started <- err
	if err == nil {
		r.err = r.cmd.Wait()
	}
}

// relayEnv is the environment without the user's own settings for other relays.
func relayEnv(env []string, ours ...string) (kept []string) {
	for _, e := range env {
		name, _, _ := strings.Cut(e, "=")
		if !strings.HasPrefix(name, "OUTBOX_") || strings.HasPrefix(name, "OUTBOX_TEST_") {
			kept = append(kept, e)
		}
	}
	return append(kept, ours...)
}

func (r *relay) pid() int { return r.cmd.Process.Pid }

// kill ends the process by SIGKILL and returns when it is gone.
func (r *relay) kill() {
	_ = r.cmd.Process.Kill() // fails when it is gone already
	<-r.ended
}

// failed tells how a relay ended that should run.
func (r *relay) failed() error {
	select {
	case <-r.ended:
		return fmt.Errorf("relay %d ended by itself (%s):\n%s", r.number, r.cmd.ProcessState, r.log.String())
	default:
		return nil
	}
}

// stop ends the process by SIGTERM.
func (r *relay) stop(ctx context.Context) error {
	defer r.kill()
	if err := r.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return errors.Join(fmt.Errorf("stop relay %d: %w", r.number, err), r.failed())
	}
	const patience = 20 * time.Second
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-r.ended:
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		return fmt.Errorf("relay %d did not stop within %v:\n%s", r.number, patience, r.log.String())
	}
	if r.err != nil {
		return fmt.Errorf("relay %d: %w:\n%s", r.number, r.err, r.log.String())
	}
	return nil
}

// tail keeps the end of a log.
type tail struct {
	mu   sync.Mutex
	text []byte
}

const tailBytes = 4 << 10

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, p...)
	if over := len(t.text) - tailBytes; over > 0 {
		t.text = append(t.text[:0], t.text[over:]...)
	}
	return len(p), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.TrimSpace(string(t.text))
}
