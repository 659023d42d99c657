// Package natsdev runs private NATS servers with JetStream, inside this process.
package natsdev

import (
	"crypto/tls"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/outboxrelay/outbox/internal/devservices"
)

// startLimit bounds the time until a starting server accepts connections.
const startLimit = 20 * time.Second

// Config changes what a server does; the zero value is complete.
type Config struct {
	// MaxPayload is the largest message that the server takes, in bytes. Default 1 MiB.
	MaxPayload int32
	// User and Password are what clients need. Default: anybody may connect.
	User, Password string
	// TLS is what clients are asked to speak. Default: plain connections.
	TLS *tls.Config
}

// Server is a NATS server on a loopback port, with JetStream on files in a temporary folder. It ends with this process
// at the latest, and the folder with it, also when that is killed. Its methods are safe for concurrent use.
type Server struct {
	cfg  Config
	sup  *devservices.Supervisor
	port int

	mu      sync.Mutex
	running *server.Server // nil while stopped
}

// Start starts a server on an empty store and returns when it accepts connections. Close ends it.
func Start(cfg Config) (*Server, error) {
	sup, err := devservices.Supervise("nats", devservices.Account{}, ":") // for the folder alone
	if err != nil {
		return nil, fmt.Errorf("start nats: %w", err)
	}
	s := &Server{cfg: cfg, sup: sup}
	if err := s.listen(devservices.FreePort); err != nil {
		return nil, errors.Join(fmt.Errorf("start nats: %w", err), sup.Close())
	}
	return s, nil
}

// listen starts the server, on another port when the chosen one was taken meanwhile.
func (s *Server) listen(freePort func() (int, error)) (err error) {
	for range 5 {
		if s.port, err = freePort(); err != nil {
			return err
		}
		if err = s.Start(); err == nil {
			return nil
		}
	}
	return err
}

// Start starts the server again after Stop, on the same store and port.
func (s *Server) Start() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.running != nil {
		return errors.New("the server runs already")
	}
	log := &serverLog{fatal: make(chan struct{})}
	ns, err := server.NewServer(&server.Options{
		Host: "127.0.0.1", Port: s.port, JetStream: true, StoreDir: s.sup.Dir, NoSigs: true, MaxPayload: s.cfg.MaxPayload,
		Username: s.cfg.User, Password: s.cfg.Password, TLSConfig: s.cfg.TLS,
	})
	if err != nil {
		return fmt.Errorf("nats server: %w", err)
	}
	ns.SetLoggerV2(log, false, false, false)
	ns.Start()
	if !log.awaitReady(ns) || !ns.JetStreamEnabled() {
		ns.Shutdown()
		ns.WaitForShutdown()
		return fmt.Errorf("nats server on port %d is not ready:\n%s", s.port, log)
	}
	s.running = ns
	return nil
}

// Stop ends the server, connections first, and returns when it has ended. Its store stays, for Start.
func (s *Server) Stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.running == nil {
		return
	}
	s.running.Shutdown()
	s.running.WaitForShutdown()
	s.running = nil
}

// Restart is Stop and Start.
func (s *Server) Restart() error {
	s.Stop()
	return s.Start()
}

// Close ends the server and removes its store.
func (s *Server) Close() error {
	s.Stop()
	return s.sup.Close()
}

// Terminate cuts all clients' connections and returns how many there were.
func (s *Server) Terminate() (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.running == nil {
		return 0, errors.New("the server is stopped")
	}
	conns, err := s.running.Connz(&server.ConnzOptions{Limit: 10_000})
	if err != nil {
		return 0, fmt.Errorf("list connections: %w", err)
	}
	n := 0
	for _, c := range conns.Conns {
		if s.running.DisconnectClientByID(c.Cid) == nil { // else it has gone by itself
			n++
		}
	}
	return n, nil
}

// URL is where clients connect.
func (s *Server) URL() string { return "nats://127.0.0.1:" + strconv.Itoa(s.port) }

// Port is the server's TCP port on 127.0.0.1.
func (s *Server) Port() int { return s.port }

// Dir is the server's temporary folder.
func (s *Server) Dir() string { return s.sup.Dir }

// serverLog keeps what the server says about errors, for the error of a start that fails. A fatal error of the
// server ends up here too, instead of ending this process.
type serverLog struct {
	fatal chan struct{} // closed by the first fatal error
	once  sync.Once

	mu   sync.Mutex
	text strings.Builder
}

// awaitReady waits until the server accepts connections; false: it cannot, or not in time.
func (l *serverLog) awaitReady(ns *server.Server) bool {
	const step = 50 * time.Millisecond
	for began := time.Now(); time.Since(began) < startLimit; {
		if ns.ReadyForConnections(step) {
			return true
		}
		select {
		case <-l.fatal:
			return false
		default:
		}
	}
	return false
}

func (l *serverLog) add(format string, args ...any) {
	const enough = 16 << 10
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.text.Len() < enough {
		fmt.Fprintf(&l.text, format+"\n", args...)
	}
}

func (l *serverLog) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func (l *serverLog) Noticef(string, ...any)            {}
func (l *serverLog) Debugf(string, ...any)             {}
func (l *serverLog) Tracef(string, ...any)             {}
func (l *serverLog) Warnf(format string, args ...any)  { l.add(format, args...) }
func (l *serverLog) Errorf(format string, args ...any) { l.add(format, args...) }
func (l *serverLog) Fatalf(format string, args ...any) {
	l.add(format, args...)
	l.once.Do(func() { close(l.fatal) })
}

var _ server.Logger = (*serverLog)(nil)
