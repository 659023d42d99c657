package devservices

import (
	"bufio"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

func supervise(t *testing.T, finish string) *Supervisor {
	t.Helper()
	account, err := ServiceAccount("nobody")
	if err != nil {
		t.Fatal(err)
	}
	sup, err := Supervise("test", account, finish)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := sup.Close(); err != nil {
			t.Error(err)
		}
	})
	return sup
}

func TestSupervisorRunsInItsFolder(t *testing.T) {
	sup := supervise(t, "")
	word := `it's "$HOME" * ; exit 9`
	if err := sup.Run(t.Context(), "sh", "-c", `printf %s "$1" >word`, "sh", word); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(filepath.Join(sup.Dir, "word"))
	if err != nil || string(got) != word {
		t.Errorf("word = %q, %v; want %q", got, err, word)
	}
}

func TestSupervisorReportsFailure(t *testing.T) {
	sup := supervise(t, "")
	err := sup.Run(t.Context(), "sh", "-c", "echo to stdout; echo to stderr >&2; exit 7")
	if err == nil {
		t.Fatal("no error")
	}
	for _, part := range []string{"exit status 7", "to stdout", "to stderr"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("error %q does not say %q", err, part)
		}
	}
}

func TestSupervisorRunGivesUp(t *testing.T) {
	sup := supervise(t, "")
	ctx, cancel := context.WithCancelCause(t.Context())
	cause := errors.New("enough")
	go func() {
		for {
			if _, err := os.Stat(filepath.Join(sup.Dir, "started")); err == nil {
				cancel(cause)
				return
			}
		}
	}()
	err := sup.Run(ctx, "sh", "-c", "touch started; while ! test -e go; do sleep 0.01; done; exit 3")
	if !errors.Is(err, cause) {
		t.Errorf("abandoned command: %v, want %v", err, cause)
	}
	if err := sup.Run(ctx, "touch", "never"); !errors.Is(err, cause) {
		t.Errorf("command with an ended context: %v, want %v", err, cause)
	}
	if err := os.WriteFile(filepath.Join(sup.Dir, "go"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := sup.Run(t.Context(), "true"); err != nil {
		t.Errorf("next command got the abandoned one's answer: %v", err)
	}
	if _, err := os.Stat(filepath.Join(sup.Dir, "never")); err == nil {
		t.Error("a command ran although its context had ended")
	}
}

func TestSupervisorClose(t *testing.T) {
	// The service's account cannot write into t.TempDir.
	note := filepath.Join(os.TempDir(), "outbox-test-finish-"+strconv.Itoa(os.Getpid()))
	sup := supervise(t, "pwd >"+Quote(note))
	t.Cleanup(func() { os.Remove(note) })
	if err := sup.Close(); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(note); err != nil || strings.TrimSpace(string(got)) != sup.Dir {
		t.Errorf("finish ran in %q, %v; want %q", got, err, sup.Dir)
	}
	if _, err := os.Stat(sup.Dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("folder after Close: %v", err)
	}
	if err := sup.Run(t.Context(), "true"); !errors.Is(err, os.ErrClosed) {
		t.Errorf("Run after Close: %v, want %v", err, os.ErrClosed)
	}
}

func TestSuperviseWithoutFolder(t *testing.T) {
	t.Setenv("TMPDIR", "/nonexistent")
	sup, err := Supervise("test", Account{}, "")
	if err == nil || !strings.Contains(err.Error(), "/nonexistent") {
		t.Fatalf("Supervise = %v, %v; want an error that names the folder", sup, err)
	}
}

func TestSupervisorOutlivesKilledParent(t *testing.T) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	parent := exec.Command(exe)
	parent.Env = append(os.Environ(), envChild+"=1")
	out, err := parent.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	dir, err := bufio.NewReader(out).ReadString('\n')
	dir = strings.TrimSpace(dir)
	if err != nil || !filepath.IsAbs(dir) {
		t.Fatalf("parent said %q, %v", dir, err)
	}
	text, err := os.ReadFile(filepath.Join(dir, "pid"))
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil || !alive(pid) {
		t.Fatalf("service %d: %v, alive %v", pid, err, alive(pid))
	}

	if err := parent.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = parent.Wait()
	eventually(t, "the service has ended", func() bool { return !alive(pid) })
	eventually(t, "the folder is gone", func() bool {
		_, err := os.Stat(dir)
		return errors.Is(err, os.ErrNotExist)
	})
}
