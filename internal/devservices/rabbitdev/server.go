package rabbitdev

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/outboxrelay/outbox/internal/devservices"
)

// startLimit bounds the time until a starting node accepts connections; an idle machine needs some seconds.
const startLimit = 90 * time.Second

// Server is a RabbitMQ node on a loopback port. It ends with this process at the latest, and its folder with it, also
// when that is killed. Its methods are safe for concurrent use.
type Server struct {
	program  program
	sup      *devservices.Supervisor
	password string
	ports    ports
	external string // URL of a server that is not ours; all else is empty then

	mu sync.Mutex
}

// ports are those of a node.
type ports struct{ amqp, epmd, dist int }

// MaxMessage is the largest message that a private node takes, in bytes: the default of RabbitMQ 4.
const MaxMessage = 16 << 20

// ErrExternal: the server was given by OUTBOX_TEST_RABBITMQ_URL and cannot be stopped, paused or managed.
var ErrExternal = errors.New("the server is not a private one")

// Start starts a node on an empty store and returns when it accepts connections. Close ends it. An error that matches
// devservices.ErrNotInstalled says what to install. The context bounds the start only. With OUTBOX_TEST_RABBITMQ_URL
// set, nothing is started and that server is used.
func Start(ctx context.Context) (*Server, error) {
	machine := devservices.ThisMachine()
	if url := machine.Getenv("OUTBOX_TEST_RABBITMQ_URL"); url != "" {
		return &Server{external: url}, nil
	}
	program, err := find(ctx, machine, places)
	if err != nil {
		return nil, err
	}
	return start(ctx, program, freePorts)
}

func start(ctx context.Context, program program, free func() (ports, error)) (*Server, error) {
	account, err := devservices.ServiceAccount("rabbitmq", "nobody")
	if err != nil {
		return nil, fmt.Errorf("start rabbitmq: %w", err)
	}
	sup, err := devservices.Supervise("rabbitmq", account, finishScript)
	if err != nil {
		return nil, fmt.Errorf("start rabbitmq: %w", err)
	}
	s := &Server{program: program, sup: sup, password: rand.Text()}
	if err := s.listen(ctx, free); err != nil {
		return nil, errors.Join(fmt.Errorf("start rabbitmq: %w", err), sup.Close())
	}
	return s, nil
}

// finishScript kills: nobody needs what is in the folder. The node goes first, it would start another port mapper.
const finishScript = `for name in node epmd; do
	test -s $name || continue
	read -r pid <$name
	kill -KILL "$pid"
done`

func freePorts() (p ports, err error) {
	for _, to := range []*int{&p.amqp, &p.epmd, &p.dist} {
		port, e := devservices.FreePort()
		*to, err = port, errors.Join(err, e)
	}
	return p, err
}

// listen starts the node, on other ports when one of the chosen was taken meanwhile.
func (s *Server) listen(ctx context.Context, free func() (ports, error)) (err error) {
	for range 5 {
		if s.ports, err = free(); err != nil {
			return err
		}
		if err = s.launch(ctx); err == nil || ctx.Err() != nil {
			return err
		}
		s.end(syscall.SIGKILL, "node", "epmd")
	}
	return err
}

// launch writes the configuration, starts port mapper and node, and waits until the node accepts our login, which no
// other server on this port would.
func (s *Server) launch(ctx context.Context) error {
	for name, text := range map[string]string{"rabbitmq.conf": s.config(), "plugins": "[].\n", "spawn": spawnScript} {
		if err := os.WriteFile(filepath.Join(s.sup.Dir, name), []byte(text), 0o644); err != nil {
			return err
		}
	}
	if _, running := s.pid("epmd"); !running {
		if err := s.spawn(ctx, "epmd", s.program.epmd, "-address", "127.0.0.1", "-port", strconv.Itoa(s.ports.epmd)); err != nil {
			return err
		}
		if err := s.awaitEPMD(ctx); err != nil {
			return err
		}
	}
	if err := s.spawn(ctx, "node", filepath.Join(s.program.sbin, "rabbitmq-server")); err != nil {
		return err
	}
	return s.awaitLogin(ctx)
}

func (s *Server) config() string {
	return fmt.Sprintf(`listeners.tcp.1 = 127.0.0.1:%d
default_user = outbox
default_pass = %s
log.file.level = warning
disk_free_limit.absolute = 1MB
collect_statistics_interval = 60000
max_message_size = %d
`, s.ports.amqp, s.password, MaxMessage)
}

// env is the node's and that of the commands to it. RUNNING_UNDER_SYSTEMD makes the script become the node, instead of
// keeping a shell before it, so that its process id is the node's from the beginning.
func (s *Server) env() []string {
	dir := s.sup.Dir
	return []string{
		"HOME=" + dir, "RABBITMQ_NODENAME=outbox@localhost", "RABBITMQ_CONF_ENV_FILE=" + filepath.Join(dir, "none"),
		"RABBITMQ_CONFIG_FILE=" + filepath.Join(dir, "rabbitmq.conf"), "RABBITMQ_ENABLED_PLUGINS_FILE=" + filepath.Join(dir, "plugins"),
		"RABBITMQ_MNESIA_BASE=" + filepath.Join(dir, "data"), "RABBITMQ_LOG_BASE=" + filepath.Join(dir, "log"),
		"ERL_EPMD_ADDRESS=127.0.0.1", "ERL_EPMD_PORT=" + strconv.Itoa(s.ports.epmd), "RABBITMQ_DIST_PORT=" + strconv.Itoa(s.ports.dist),
		"RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS=" + loopback, "RABBITMQ_CTL_ERL_ARGS=" + loopback, "RUNNING_UNDER_SYSTEMD=true",
		"LC_ALL=C.UTF-8",
	}
}

const loopback = "-kernel inet_dist_use_interface {127,0,0,1}"

// spawnScript runs a program in the background. The file named $1 holds its process id for as long as it runs; the
// shell in between removes it, and reaps the process, which would otherwise seem to be there. The script ends when
// there is a process id, or was.
const spawnScript = `name=$1; shift
rm -f $name.ended
(
	"$@" >$name.out 2>&1 &
	echo $! >$name.new && mv $name.new $name
	wait $!
	>$name.ended
	rm -f $name
) >/dev/null 2>&1 &
until test -s $name || test -e $name.ended; do sleep 0.01; done`

func (s *Server) spawn(ctx context.Context, name string, args ...string) error {
	words := append([]string{"env"}, s.env()...)
	return s.sup.Run(ctx, append(append(words, "sh", "spawn", name), args...)...)
}

// awaitEPMD waits until the port mapper listens: a node that finds none starts one, which nobody would end.
func (s *Server) awaitEPMD(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	for {
		conn, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", s.ports.epmd))
		if err == nil {
			return conn.Close()
		}
		if _, running := s.pid("epmd"); !running || ctx.Err() != nil {
			return fmt.Errorf("the port mapper does not listen: %w", err)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// awaitLogin waits until the node takes connections; it fails when the node ends or the limit is over.
func (s *Server) awaitLogin(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	for {
		conn, err := s.dial()
		if err == nil {
			return conn.Close()
		}
		if _, running := s.pid("node"); !running {
			return fmt.Errorf("the node ended:\n%s", s.Log())
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the node takes no connections: %w:\n%s", err, s.Log())
		case <-time.After(50 * time.Millisecond):
		}
	}
}

func (s *Server) dial() (*amqp.Connection, error) {
	return amqp.DialConfig(s.URL(), amqp.Config{Dial: amqp.DefaultDial(10 * time.Second)})
}

// pid is the process that a file names, if it runs.
func (s *Server) pid(name string) (int, bool) {
	text, err := os.ReadFile(filepath.Join(s.sup.Dir, name))
	if err != nil {
		return 0, false
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	return pid, err == nil && pid > 0
}

// end sends a signal to the named processes, in this order, and waits until they have ended; a process that takes too
// long is killed.
func (s *Server) end(sig syscall.Signal, names ...string) {
	for _, name := range names {
		pid, running := s.pid(name)
		if !running {
			continue
		}
		_ = syscall.Kill(pid, sig) // it may have ended by now
		for killAt := time.Now().Add(startLimit); running; _, running = s.pid(name) {
			time.Sleep(10 * time.Millisecond)
			if time.Now().After(killAt) {
				_ = syscall.Kill(pid, syscall.SIGKILL)
			}
		}
	}
}

// Stop ends the node as an administrator does; its store stays, for Start.
func (s *Server) Stop() error { return s.halt(syscall.SIGTERM) }

// Kill ends the node without a chance to tidy up; its store stays, for Start.
func (s *Server) Kill() error { return s.halt(syscall.SIGKILL) }

func (s *Server) halt(sig syscall.Signal) error {
	if s.external != "" {
		return ErrExternal
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.end(sig, "node")
	return nil
}

// Start starts the node again after Stop or Kill, with the same store and ports.
func (s *Server) Start(ctx context.Context) error {
	if s.external != "" {
		return ErrExternal
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, running := s.pid("node"); running {
		return errors.New("the node runs already")
	}
	return s.launch(ctx)
}

// Pause stops the node's process, as a machine that hangs does: connections stay open and nothing answers.
func (s *Server) Pause() error { return s.signal(syscall.SIGSTOP) }

// Resume lets a paused node go on.
func (s *Server) Resume() error { return s.signal(syscall.SIGCONT) }

func (s *Server) signal(sig syscall.Signal) error {
	if s.external != "" {
		return ErrExternal
	}
	pid, running := s.pid("node")
	if !running {
		return errors.New("the node does not run")
	}
	return syscall.Kill(pid, sig)
}

// Alarm raises or clears the memory alarm, during which the node reads nothing from publishers.
func (s *Server) Alarm(ctx context.Context, on bool) error {
	watermark := "0.6"
	if on {
		watermark = "0.000001"
	}
	return s.Ctl(ctx, "set_vm_memory_high_watermark", watermark)
}

// Sync has the node write down what was declared so far. Messages that it has confirmed outlive a kill, exchanges, queues
// and bindings of the last moments do not.
func (s *Server) Sync(ctx context.Context) error { return s.Ctl(ctx, "eval", "mnesia:sync_log().") }

// Ctl runs rabbitmqctl with the arguments.
func (s *Server) Ctl(ctx context.Context, args ...string) error {
	if s.external != "" {
		return ErrExternal
	}
	words := append([]string{"env"}, s.env()...)
	return s.sup.Run(ctx, append(append(words, filepath.Join(s.program.sbin, "rabbitmqctl"), "-q"), args...)...)
}

// URL is where clients connect, login included.
func (s *Server) URL() string {
	if s.external != "" {
		return s.external
	}
	return fmt.Sprintf("amqp://outbox:%s@127.0.0.1:%d/", s.password, s.ports.amqp)
}

// IsPrivate reports whether the server is one of ours, which takes messages up to MaxMessage and can be stopped.
func (s *Server) IsPrivate() bool { return s.external == "" }

// Addr is the host and port of URL.
func (s *Server) Addr() string {
	u, err := url.Parse(s.URL())
	if err != nil {
		return ""
	}
	return u.Host
}

// Through is URL by way of a proxy at the address.
func (s *Server) Through(proxy string) string { return strings.Replace(s.URL(), s.Addr(), proxy, 1) }

// Log is what the node has said.
func (s *Server) Log() string {
	text, err := os.ReadFile(filepath.Join(s.sup.Dir, "node.out"))
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// Close ends the node and removes its folder.
func (s *Server) Close() error {
	if s.external != "" {
		return nil
	}
	return s.sup.Close()
}
