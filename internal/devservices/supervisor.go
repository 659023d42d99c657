package devservices

import (
	"bufio"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"
)

//go:embed supervisor.sh
var supervisorScript string

// Supervisor is a shell process that runs the commands of one service inside a temporary folder. It outlives this
// process just long enough to end the service and to remove the folder, also when this process is killed by SIGKILL:
// it waits for the end of a pipe that only this process holds. Its methods are safe for concurrent use; commands run
// one after the other.
type Supervisor struct {
	// Dir is the service's folder, removed by Close. It belongs to the account given to Supervise.
	Dir string

	cmd   *exec.Cmd
	stdin *os.File

	mu      sync.Mutex
	stdout  *os.File
	answers *bufio.Reader
	sent    int
	closed  bool
}

// Supervise starts a supervisor under the account. The name becomes part of the folder's name, which lies in
// os.TempDir. The shell script finish ends whatever the service has running; it runs inside the folder, once, when the
// supervisor is closed or this process has ended.
func Supervise(name string, account Account, finish string) (*Supervisor, error) {
	inRead, inWrite, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("supervise %s: %w", name, err)
	}
	defer inRead.Close()
	outRead, outWrite, err := os.Pipe()
	if err != nil {
		inWrite.Close()
		return nil, fmt.Errorf("supervise %s: %w", name, err)
	}
	defer outWrite.Close()

	pattern := filepath.Join(os.TempDir(), "outbox-"+name+".XXXXXX")
	cmd := exec.Command("/bin/sh", "-c", supervisorScript, "outbox-supervisor", pattern, finish)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = inRead, outWrite, outWrite
	cmd.Dir = "/"
	cmd.Env = serviceEnv()
	cmd.SysProcAttr = account.procAttr()
	cmd.SysProcAttr.Setsid = true
	s := &Supervisor{cmd: cmd, stdin: inWrite, stdout: outRead, answers: bufio.NewReader(outRead)}
	if err := cmd.Start(); err != nil {
		inWrite.Close()
		outRead.Close()
		return nil, fmt.Errorf("supervise %s: %w", name, err)
	}
	return s, s.readDir(name)
}

// serviceEnv is a small environment of its own: a PGPORT or a locale of the caller must not change a private server.
func serviceEnv() []string {
	return []string{"PATH=" + os.Getenv("PATH"), "TMPDIR=" + os.TempDir(), "LC_ALL=C"}
}

func (s *Supervisor) readDir(name string) error {
	line, err := s.answers.ReadString('\n')
	line = strings.TrimSuffix(line, "\n")
	if err == nil && filepath.IsAbs(line) {
		s.Dir = line
		return nil
	}
	return errors.Join(fmt.Errorf("supervise %s: no temporary folder: %s", name, line), s.Close())
}

// Run runs a command inside the folder and waits for it; an error carries the command's output. When the context ends
// first, Run returns its cause while the command goes on, and the next Run waits for it.
func (s *Supervisor) Run(ctx context.Context, args ...string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return fmt.Errorf("run %s: %w", args[0], os.ErrClosed)
	}
	if ctx.Err() != nil {
		return fmt.Errorf("run %s: %w", args[0], context.Cause(ctx))
	}
	s.sent++
	if _, err := fmt.Fprintf(s.stdin, "%d %s\n", s.sent, quote(args)); err != nil {
		return fmt.Errorf("run %s: supervisor: %w", args[0], err)
	}
	status, err := s.answer(ctx)
	if err != nil {
		return fmt.Errorf("run %s: %w", args[0], err)
	}
	if status != 0 {
		out, _ := os.ReadFile(filepath.Join(s.Dir, "out"))
		return fmt.Errorf("run %s: exit status %d: %s", args[0], status, strings.TrimSpace(string(out)))
	}
	return nil
}

// answer reads up to the answer to the last command; an earlier one is of a command that its caller gave up on.
func (s *Supervisor) answer(ctx context.Context) (status int, err error) {
	fired := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(fired)
		s.stdout.SetReadDeadline(time.Unix(1, 0))
	})
	defer func() {
		if !stop() {
			<-fired
			s.stdout.SetReadDeadline(time.Time{})
		}
	}()
	for {
		line, err := s.answers.ReadString('\n')
		if err != nil && ctx.Err() != nil {
			return 0, context.Cause(ctx)
		}
		if err != nil {
			return 0, fmt.Errorf("supervisor ended: %w", err)
		}
		var number int
		if _, err := fmt.Sscan(line, &number, &status); err != nil {
			return 0, fmt.Errorf("supervisor answered %s: %w", strconv.Quote(line), err)
		}
		if number == s.sent {
			return status, nil
		}
	}
}

// Close ends the service, removes the folder and returns when both are done. Further calls do nothing.
func (s *Supervisor) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	s.stdin.Close()
	err := s.cmd.Wait()
	s.stdout.Close()
	if err != nil {
		return fmt.Errorf("supervisor: %w", err)
	}
	return nil
}

// Pid is the process id of the supervisor itself.
func (s *Supervisor) Pid() int { return s.cmd.Process.Pid }

// quote makes one line of shell of the words; a line break inside a word would end the command early, so it is kept
// out by the callers, whose words are paths and numbers.
func quote(words []string) string {
	quoted := make([]string, len(words))
	for i, w := range words {
		quoted[i] = Quote(w)
	}
	return strings.Join(quoted, " ")
}

// Quote makes one word of shell of any text without line breaks.
func Quote(word string) string {
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}
