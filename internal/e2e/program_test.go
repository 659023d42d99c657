package e2e

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// built is the program outbox, made when the first test needs it.
var built struct {
	once sync.Once
	dir  string
	err  error
}

func build() {
	if built.dir, built.err = os.MkdirTemp("", "outbox-e2e-"); built.err != nil {
		return
	}
	if out, err := exec.Command("go", "build", "-o", built.dir, "github.com/outboxrelay/outbox/cmd/outbox").CombinedOutput(); err != nil {
		built.err = errors.New(err.Error() + ": " + string(out))
	}
}

// program is a process of it.
type program struct {
	*exec.Cmd
	mu  sync.Mutex
	log bytes.Buffer
}

func newProgram(t *testing.T, args ...string) *program {
	t.Helper()
	built.once.Do(build)
	if built.err != nil {
		t.Fatalf("build the program: %v", built.err)
	}
	p := &program{Cmd: exec.Command(filepath.Join(built.dir, "outbox"), args...)}
	p.Env = append(os.Environ(), "OUTBOX_ADMIN_LISTEN=off")
	p.Stderr = p
	return p
}

func startProgram(t *testing.T, args ...string) *program {
	t.Helper()
	p := newProgram(t, args...)
	p.launch(t)
	return p
}

// launch starts a program that ends with the test.
func (p *program) launch(t *testing.T) {
	t.Helper()
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = p.Process.Kill()
		_ = p.Wait() // fails when the test has waited
	})
}

// call runs the program and returns what it printed; it must succeed.
func callProgram(t *testing.T, args ...string) string {
	t.Helper()
	p := newProgram(t, args...)
	var out bytes.Buffer
	p.Stdout = &out
	if err := p.Run(); err != nil {
		t.Fatalf("outbox %s: %v: %s", strings.Join(args, " "), err, p.text())
	}
	return out.String()
}

func (p *program) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.log.Write(b)
}

func (p *program) text() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.log.String()
}

// line is one of the relay's log.
type line struct {
	Level, Msg, Destination, Topic, Class, Error string
	Retried, Dead, Delivered                     int
}

func (p *program) lines(t *testing.T) (lines []line) {
	t.Helper()
	for text := bufio.NewScanner(strings.NewReader(p.text())); text.Scan(); {
		var l line
		if err := json.Unmarshal(text.Bytes(), &l); err != nil {
			t.Errorf("%v: %s", err, text.Text())
		}
		lines = append(lines, l)
	}
	return lines
}

// says counts the log's lines with a message, of one destination or of all.
func (p *program) says(t *testing.T, msg, destination string) (n int) {
	t.Helper()
	for _, l := range p.lines(t) {
		if l.Msg == msg && (destination == "" || l.Destination == destination) {
			n++
		}
	}
	return n
}

// stop asks the relay to stop, waits until it has, and returns its last line.
func (p *program) stop(t *testing.T) (last line) {
	t.Helper()
	if err := p.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- p.Wait() }()
	select {
	case err := <-ended:
		if err != nil {
			t.Errorf("the relay stopped with %v:\n%s", err, p.text())
		}
	case <-time.After(time.Minute):
		t.Fatalf("the relay does not stop:\n%s", p.text())
	}
	for _, l := range p.lines(t) {
		if l.Msg == "relay stopped" {
			last = l
		}
	}
	return last
}
