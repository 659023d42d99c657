// Package pgdev runs private PostgreSQL servers and makes databases on them in milliseconds.
package pgdev

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/outboxrelay/outbox/internal/devservices"
)

// Mode is how a server stops.
type Mode string

const (
	// Fast rolls open transactions back, disconnects everybody and writes a checkpoint.
	Fast Mode = "fast"
	// Immediate drops everything at once; the next start recovers from the log, as after a crash.
	Immediate Mode = "immediate"
)

// Server is a private PostgreSQL server on a loopback port. It trusts every local user as superuser "postgres". It
// ends with this process at the latest, also when that is killed. Its methods are safe for concurrent use.
type Server struct {
	bin  string
	cfg  Config
	port int
	sup  *devservices.Supervisor
	lib  string // sets the server's clock; empty: none does

	cluster *Cluster

	mu     sync.Mutex
	paused []int // processes stopped by Pause, the postmaster first
}

// Start starts a server on an empty data folder and returns when it accepts connections. An error that matches
// devservices.ErrNotInstalled says what to install. The context bounds the start only; Close ends the server.
func Start(ctx context.Context, cfg Config) (*Server, error) {
	bin, err := binaries(ctx, devservices.ThisMachine(), placesOf(os.LookupEnv))
	if err != nil {
		return nil, err
	}
	lib := ""
	if cfg.SetClock {
		if lib, err = clockLibrary(ctx, devservices.ThisMachine(), clockLibraries()); err != nil {
			return nil, err
		}
	}
	account, err := devservices.ServiceAccount("postgres", "nobody")
	if err != nil {
		return nil, fmt.Errorf("start postgres: %w", err)
	}
	sup, err := devservices.Supervise("postgres", account, finishScript(bin))
	if err != nil {
		return nil, fmt.Errorf("start postgres: %w", err)
	}
	s := &Server{bin: bin, cfg: cfg, sup: sup, lib: lib}
	if err := s.create(ctx, account, cfg); err != nil {
		return nil, errors.Join(fmt.Errorf("start postgres: %w", err), sup.Close())
	}
	s.cluster = &Cluster{url: s.URL("postgres")}
	return s, nil
}

// finishScript ends the server whatever state it is in; stopped processes would not react to anything but SIGKILL.
func finishScript(bin string) string {
	return `test ! -s paused || kill -CONT $(cat paused)
test -s data/postmaster.pid || exit 0
read -r pid <data/postmaster.pid
` + devservices.Quote(filepath.Join(bin, "pg_ctl")) + ` stop -D data -m immediate -t 20 || kill -KILL "$pid"`
}

// create makes the data folder and starts the server.
func (s *Server) create(ctx context.Context, account devservices.Account, cfg Config) error {
	if err := s.initData(ctx, account); err != nil {
		return err
	}
	if s.lib != "" {
		if err := s.SetClock(0); err != nil {
			return err
		}
	}
	return s.listen(ctx, cfg, devservices.FreePort)
}

// listen configures and starts the server, on another port when the chosen one was taken meanwhile.
func (s *Server) listen(ctx context.Context, cfg Config, freePort func() (int, error)) error {
	conf := filepath.Join(s.data(), "postgresql.conf")
	original, err := os.ReadFile(conf)
	if err != nil {
		return err
	}
	for attempt := 1; ; attempt++ {
		if s.port, err = freePort(); err != nil {
			return err
		}
		if err := os.WriteFile(conf, append(original[:len(original):len(original)], cfg.conf(s.port)...), 0o600); err != nil {
			return err
		}
		err := s.Start(ctx)
		if err == nil || attempt == 5 || !strings.Contains(s.Log(), "could not bind") {
			return err
		}
	}
}

func (s *Server) initData(ctx context.Context, account devservices.Account) error {
	options := []string{"-U", "postgres", "--auth=trust", "--encoding=UTF8", "--locale=C", "--no-sync"}
	seed, err := newSeed(ctx, s.program("initdb"), options, account)
	if err != nil {
		return err
	}
	if seed.unpack(ctx, s.sup) {
		return nil
	}
	if err := s.sup.Run(ctx, append([]string{s.program("initdb"), "-D", "data"}, options...)...); err != nil {
		return err
	}
	seed.save(ctx, s.sup)
	return nil
}

// Start starts the server again after Stop, on the same data and port.
func (s *Server) Start(ctx context.Context) error {
	err := s.sup.Run(ctx, append(s.clockEnv(), s.program("pg_ctl"), "start", "-D", "data", "-l", "log", "-w", "-t", "60", "-s")...)
	if err != nil {
		return fmt.Errorf("%w\nserver log:\n%s", err, s.Log())
	}
	return nil
}

// Stop stops the server, a paused one too, and returns when it has ended. Its data stays, for Start.
func (s *Server) Stop(ctx context.Context, mode Mode) error {
	if err := s.Resume(); err != nil {
		return err
	}
	return s.sup.Run(ctx, s.program("pg_ctl"), "stop", "-D", "data", "-m", string(mode), "-w", "-t", "60", "-s")
}

// Close ends the server in whatever state it is and removes its folder.
func (s *Server) Close() error { return s.sup.Close() }

// URL is the connection string of the named database.
func (s *Server) URL(database string) string {
	return fmt.Sprintf("postgres://postgres@127.0.0.1:%d/%s?sslmode=disable", s.port, database)
}

// Cluster gives access to the server's databases.
func (s *Server) Cluster() *Cluster { return s.cluster }

// Port is the server's TCP port on 127.0.0.1.
func (s *Server) Port() int { return s.port }

// Dir is the server's temporary folder.
func (s *Server) Dir() string { return s.sup.Dir }

// Log is what the server has written to its log.
func (s *Server) Log() string {
	text, err := os.ReadFile(filepath.Join(s.sup.Dir, "log"))
	if err != nil {
		return err.Error()
	}
	return string(text)
}

func (s *Server) data() string { return filepath.Join(s.sup.Dir, "data") }

func (s *Server) program(name string) string { return filepath.Join(s.bin, name) }
