package pgdev

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/outboxrelay/outbox/internal/devservices"
)

func TestServerSettings(t *testing.T) {
	s := start(t, Config{Settings: map[string]string{"application_name": "it's ours", "work_mem": "1MB"}})
	conn := connect(t, s.URL("postgres"))
	for name, want := range map[string]string{
		"wal_level": "logical", "fsync": "off", "full_page_writes": "on", "synchronous_commit": "on",
		"server_encoding": "UTF8", "work_mem": "1MB", "listen_addresses": "127.0.0.1", "max_prepared_transactions": "20",
	} {
		if got := queryText(t, conn, "show "+name); got != want {
			t.Errorf("%s = %s, want %s", name, got, want)
		}
	}
}

func TestServerDurable(t *testing.T) {
	s := start(t, Config{Durable: true})
	if got := queryText(t, connect(t, s.URL("postgres")), "show fsync"); got != "on" {
		t.Errorf("fsync = %s, want on", got)
	}
}

func TestServerStopAndStart(t *testing.T) {
	s := start(t, Config{})
	mustExec(t, connect(t, s.URL("postgres")), "create table kept (n int)")
	for i, mode := range []Mode{Fast, Immediate} {
		conn := connect(t, s.URL("postgres"))
		mustExec(t, conn, "insert into kept values (1)")
		if err := s.Stop(t.Context(), mode); err != nil {
			t.Fatalf("stop %s: %v", mode, err)
		}
		if err := conn.Ping(t.Context()); err == nil {
			t.Errorf("stop %s: the connection still works", mode)
		}
		if _, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", s.Port())); err == nil {
			t.Errorf("stop %s: the port still answers", mode)
		}
		if err := s.Start(t.Context()); err != nil {
			t.Fatalf("start after %s: %v", mode, err)
		}
		got := queryText(t, connect(t, s.URL("postgres")), "select count(*)::text from kept")
		if want := fmt.Sprint(i + 1); got != want {
			t.Errorf("after %s: %s rows committed, want %s", mode, got, want)
		}
	}
	if !strings.Contains(s.Log(), "was not properly shut down") {
		t.Error("an immediate stop was not one: the log tells of no recovery")
	}
}

func TestServerStartFails(t *testing.T) {
	_, err := Start(t.Context(), Config{Settings: map[string]string{"shared_buffers": "nonsense"}})
	if errors.Is(err, devservices.ErrNotInstalled) {
		t.Skip(err)
	}
	wantInError(t, err, "nonsense", "server log")
}

func TestServerTriesAnotherPort(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	s := start(t, Config{})
	if err := s.Stop(t.Context(), Fast); err != nil {
		t.Fatal(err)
	}
	tries := 0
	ports := func() (int, error) {
		tries++
		if tries == 1 {
			return taken.Addr().(*net.TCPAddr).Port, nil
		}
		return devservices.FreePort()
	}
	if err := s.listen(t.Context(), Config{}, ports); err != nil {
		t.Fatal(err)
	}
	if tries != 2 {
		t.Errorf("%d ports tried, want 2", tries)
	}
	connect(t, s.URL("postgres"))
}

func TestServerPause(t *testing.T) {
	s := start(t, Config{})
	conn := connect(t, s.URL("postgres"))
	for range 2 { // the second one finds it paused
		if err := s.Pause(); err != nil {
			t.Fatal(err)
		}
	}
	answered := make(chan error, 1)
	go func() {
		_, err := conn.Exec(context.Background(), "select 1")
		answered <- err
	}()
	select {
	case err := <-answered:
		t.Errorf("a paused server answered: %v", err)
	case <-time.After(100 * time.Millisecond):
	}
	if err := s.Resume(); err != nil {
		t.Fatal(err)
	}
	if err := <-answered; err != nil {
		t.Errorf("after Resume: %v", err)
	}
	if err := s.Resume(); err != nil {
		t.Errorf("Resume of a running server: %v", err)
	}
}

func TestServerStopsWhilePaused(t *testing.T) {
	s := start(t, Config{})
	connect(t, s.URL("postgres"))
	if err := s.Pause(); err != nil {
		t.Fatal(err)
	}
	if err := s.Stop(t.Context(), Fast); err != nil {
		t.Fatal(err)
	}
	if err := s.Pause(); err == nil {
		t.Error("pausing a stopped server: no error")
	}
}

func TestServerClose(t *testing.T) {
	s := start(t, Config{})
	postmaster, err := s.postmaster()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Pause(); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	wantGone(t, s.Dir(), postmaster)
}

func TestServerEndsWithKilledParent(t *testing.T) {
	if testing.Short() {
		t.Skip("starts several servers")
	}
	for _, state := range []string{"running", "paused"} {
		t.Run(state, func(t *testing.T) {
			start(t, Config{}) // skips without PostgreSQL
			dir, postmaster := killedParent(t, state)
			eventually(t, "the postmaster has ended", func() bool { return ended(postmaster) })
			eventually(t, "the folder is gone", func() bool { return gone(dir) })
		})
	}
}

// killedParent has a process start a server, kills it by SIGKILL and returns what it had started.
func killedParent(t *testing.T, state string) (dir string, postmaster int) {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	parent := exec.Command(exe)
	parent.Env = append(os.Environ(), envChild+"="+state)
	out, err := parent.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Sscan(line, &dir, &postmaster); err != nil || gone(dir) || ended(postmaster) {
		t.Fatalf("parent said %q (%v); folder gone %v, postmaster ended %v", line, err, gone(dir), ended(postmaster))
	}
	if err := parent.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = parent.Wait()
	return dir, postmaster
}

func wantGone(t *testing.T, dir string, postmaster int) {
	t.Helper()
	if !ended(postmaster) {
		t.Errorf("postmaster %d is alive", postmaster)
	}
	if !gone(dir) {
		t.Errorf("%s is there", dir)
	}
}

func gone(dir string) bool {
	_, err := os.Stat(dir)
	return errors.Is(err, os.ErrNotExist)
}

// ended counts a process that only waits to be reaped as ended: init does not everywhere hurry with it.
func ended(pid int) bool {
	if syscall.Kill(pid, 0) != nil {
		return true
	}
	stat, err := os.ReadFile(filepath.Join("/proc", fmt.Sprint(pid), "stat"))
	return err == nil && strings.Contains(string(stat), ") Z ")
}
