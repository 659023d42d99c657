package rabbitdev

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/outboxrelay/outbox/internal/devservices"
)

// envChild makes the test binary play the parent that gets killed.
const envChild = "OUTBOX_TEST_RABBITDEV_CHILD"

var rabbit Shared

func TestMain(m *testing.M) {
	if os.Getenv(envChild) != "" {
		os.Exit(startForever())
	}
	os.Exit(rabbit.Run(m))
}

func short(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("starts a node of its own, which takes seconds")
	}
}

func startForever() int {
	s, err := Start(context.Background())
	if err != nil {
		fmt.Println(err)
		return 1
	}
	node, _ := s.pid("node")
	epmd, _ := s.pid("epmd")
	fmt.Println(s.sup.Dir, node, epmd)
	time.Sleep(time.Hour) // the end comes by a signal
	return 0
}

// TestStopAndKill: confirmed messages are there again after an orderly and after a sudden end, on the same port.
func TestStopAndKill(t *testing.T) {
	short(t)
	s := rabbit.Private(t)
	if err := s.Bind("restart", "restart", "#", nil); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Delete("restart", "restart"); err != nil {
			t.Error(err)
		}
	})
	for i, end := range []func() error{s.Stop, s.Kill} {
		publish(t, s, "restart")
		if err := end(); err != nil {
			t.Fatal(err)
		}
		if conn, err := amqp.Dial(s.URL()); err == nil {
			conn.Close()
			t.Fatal("it still takes connections")
		}
		if err := s.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		all, err := s.Messages("restart")
		if err != nil || len(all) != i+1 {
			t.Fatalf("%d messages instead of %d, %v", len(all), i+1, err)
		}
	}
	if err := s.Start(t.Context()); err == nil {
		t.Error("a running node was started again")
	}
}

func publish(t *testing.T, s *Server, exchange string) {
	t.Helper()
	err := s.Do(func(ch *amqp.Channel) error {
		if err := ch.Confirm(false); err != nil {
			return err
		}
		c, err := ch.PublishWithDeferredConfirm(exchange, "a", false, false, amqp.Publishing{DeliveryMode: amqp.Persistent, Body: []byte("x")})
		if err != nil {
			return err
		}
		if acked, err := c.WaitContext(t.Context()); !acked {
			return errors.Join(errors.New("not acknowledged"), err)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestAlarm: publishers are told that they are blocked, and that they are not.
func TestAlarm(t *testing.T) {
	s := rabbit.Private(t)
	conn, err := amqp.Dial(s.URL())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	blocked := conn.NotifyBlocked(make(chan amqp.Blocking, 4))
	ch, err := conn.Channel()
	if err != nil {
		t.Fatal(err)
	}
	for _, on := range []bool{true, false} {
		if err := s.Alarm(t.Context(), on); err != nil {
			t.Fatal(err)
		}
		if on { // only who publishes is told
			if err := ch.Publish("", "nowhere", false, false, amqp.Publishing{}); err != nil {
				t.Fatal(err)
			}
		}
		select {
		case b := <-blocked:
			if b.Active != on {
				t.Errorf("alarm %v: blocked is %v", on, b.Active)
			}
		case <-time.After(30 * time.Second):
			t.Fatalf("alarm %v: nobody told", on)
		}
	}
}

// TestLoopbackOnly: all ports of the node are on the loopback interface, and none is the usual one.
func TestLoopbackOnly(t *testing.T) {
	s := rabbit.Private(t)
	pid, ok := s.pid("node")
	if !ok {
		t.Fatal("no node")
	}
	out, err := exec.Command("ss", "-ltnpH").Output()
	if err != nil {
		t.Skip("no ss on this machine:", err)
	}
	n := 0
	for line := range strings.Lines(string(out)) {
		if !strings.Contains(line, fmt.Sprintf("pid=%d,", pid)) {
			continue
		}
		n++
		address := strings.Fields(line)[3]
		if !strings.HasPrefix(address, "127.0.0.1:") || strings.HasSuffix(address, ":5672") {
			t.Errorf("listens on %s", address)
		}
	}
	if n == 0 {
		t.Error("listens nowhere")
	}
}

// TestParentKilled: neither node nor port mapper, nor what they have started, nor the folder outlives the process that
// asked for them.
func TestParentKilled(t *testing.T) {
	short(t)
	rabbit.Private(t)
	child := exec.Command(os.Args[0])
	child.Env = append(os.Environ(), envChild+"=1")
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	var dir string
	var node, epmd int
	if _, err := fmt.Fscan(out, &dir, &node, &epmd); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat("/proc/self/environ"); err == nil && len(ours(t, dir)) < 2 {
		t.Errorf("the check does not see the processes: %v", ours(t, dir))
	}
	if err := child.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = child.Wait()
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		_, err := os.Stat(dir)
		if !alive(node) && !alive(epmd) && len(ours(t, dir)) == 0 && errors.Is(err, os.ErrNotExist) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("node alive: %v, port mapper alive: %v, what they have started: %v, folder: %v", alive(node), alive(epmd), ours(t, dir), err)
		}
	}
}

// ours are the processes that run for a node in the folder, by their environment.
func ours(t *testing.T, dir string) (pids []string) {
	t.Helper()
	paths, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, path := range paths {
		if text, err := os.ReadFile(path); err == nil && strings.Contains(string(text), "HOME="+dir+"\x00") {
			pids = append(pids, filepath.Base(filepath.Dir(path)))
		}
	}
	return pids
}

func alive(pid int) bool {
	if syscall.Kill(pid, 0) != nil {
		return false
	}
	stat, err := os.ReadFile(filepath.Join("/proc", fmt.Sprint(pid), "stat"))
	return err != nil || !strings.Contains(string(stat), ") Z ")
}

// TestPortTaken: a port that somebody else took in the meantime is given up for another.
func TestPortTaken(t *testing.T) {
	short(t)
	first, errEnough := rabbit.Private(t), errors.New("enough")
	calls := 0
	_, err := start(t.Context(), first.program, func() (ports, error) {
		calls++
		if calls == 2 {
			return ports{}, errEnough
		}
		p, err := freePorts()
		p.amqp = first.ports.amqp
		return p, err
	})
	if !errors.Is(err, errEnough) || calls != 2 {
		t.Errorf("after %d tries: %v", calls, err)
	}
	if _, running := first.pid("node"); !running {
		t.Error("the first node is gone")
	}
}

func TestNotInstalled(t *testing.T) {
	if rabbit.Server(t) != nil && !Installed() {
		t.Error("what has been started is not installed")
	}
	machine := devservices.Machine{Getenv: func(string) string { return "" }, Log: &bytes.Buffer{}}
	if _, err := find(t.Context(), machine, []string{t.TempDir()}); !errors.Is(err, devservices.ErrNotInstalled) {
		t.Errorf("error %v", err)
	}
}

func TestExternal(t *testing.T) {
	t.Setenv("OUTBOX_TEST_RABBITMQ_URL", "amqp://somewhere/")
	s, err := Start(t.Context())
	if err != nil || s.URL() != "amqp://somewhere/" {
		t.Fatalf("%v, %v", s, err)
	}
	for _, err := range []error{s.Stop(), s.Kill(), s.Pause(), s.Resume(), s.Start(t.Context()), s.Alarm(t.Context(), true)} {
		if !errors.Is(err, ErrExternal) {
			t.Errorf("error %v", err)
		}
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}
