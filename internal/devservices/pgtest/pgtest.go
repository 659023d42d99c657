// Package pgtest gives tests a PostgreSQL server and databases of their own.
//
// A test package declares one server for all its tests and lets it run them:
//
//	var postgres pgtest.Shared
//
//	func TestMain(m *testing.M) { os.Exit(postgres.Run(m)) }
//
//	func TestSomething(t *testing.T) {
//		url := postgres.DatabaseFrom(t, "migrated", migrate)
//		…
//	}
package pgtest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/outboxrelay/outbox/internal/devservices"
	"github.com/outboxrelay/outbox/internal/devservices/pgdev"
)

// patience bounds each thing asked of a server; a healthy one takes milliseconds.
const patience = 2 * time.Minute

// Shared is one PostgreSQL server for all tests of a process: started for the first test that needs it, or the server
// that the variable OUTBOX_TEST_POSTGRES_URL names. The zero value is ready for use. Its methods are safe for
// concurrent use.
type Shared struct {
	// Config is the private server's; a server given by the variable is used as it is.
	Config pgdev.Config
	// Parallel is how many tests run at a time for each processor, unless the command line says how many: those of a
	// server wait most of their time, for it or for a process. The default is one, as always.
	Parallel int

	once    sync.Once
	server  *pgdev.Server // nil when the server is given
	cluster *pgdev.Cluster
	err     error
}

// Run runs the tests, ends the server, looks for leaked goroutines when all tests passed, and returns the exit code
// for TestMain.
func (s *Shared) Run(m *testing.M, options ...goleak.Option) int {
	if err := skipExamples(devservices.ThisMachine(), pgdev.Installed); err != nil {
		fmt.Fprintln(os.Stderr, "pgtest: skip examples:", err)
		return 1
	}
	if err := letRun(s.Parallel); err != nil {
		fmt.Fprintln(os.Stderr, "pgtest: tests at a time:", err)
		return 1
	}
	code := m.Run()
	if err := s.close(); err != nil {
		fmt.Fprintln(os.Stderr, "pgtest:", err)
		code = max(code, 1)
	}
	if code != 0 {
		return code
	}
	if err := goleak.Find(options...); err != nil {
		fmt.Fprintln(os.Stderr, "pgtest: goroutines left behind:", err)
		return 1
	}
	return 0
}

// Database makes an empty database that goes with the test, and returns its connection string.
func (s *Shared) Database(t testing.TB) string {
	t.Helper()
	return database(t, s.Cluster(t), func(ctx context.Context, c *pgdev.Cluster) (string, error) { return c.Create(ctx) })
}

// DatabaseFrom makes a copy of the named template that goes with the test, and returns its connection string. The first
// call for a name makes the template: prepare gets the connection string of an empty database and closes the
// connections it opens.
func (s *Shared) DatabaseFrom(t testing.TB, template string, prepare func(ctx context.Context, url string) error) string {
	t.Helper()
	return database(t, s.Cluster(t), func(ctx context.Context, c *pgdev.Cluster) (string, error) {
		return c.CreateFrom(ctx, template, prepare)
	})
}

func database(t testing.TB, c *pgdev.Cluster, create func(context.Context, *pgdev.Cluster) (string, error)) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	name, err := create(ctx, c)
	if err != nil {
		t.Fatalf("pgtest: %v", err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := c.Drop(ctx, name); err != nil {
			t.Errorf("pgtest: %v", err)
		}
	})
	return c.URL(name)
}

// Cluster is the shared server's, for tests that need more than a database. Without PostgreSQL on the machine the test
// is skipped, or fails when the variable CI is set.
func (s *Shared) Cluster(t testing.TB) *pgdev.Cluster {
	t.Helper()
	s.once.Do(s.start)
	require(t, devservices.ThisMachine(), s.err)
	return s.cluster
}

func (s *Shared) start() {
	if url := os.Getenv(pgdev.EnvURL); url != "" {
		s.cluster, s.err = pgdev.NewCluster(url)
		if s.err != nil {
			s.err = fmt.Errorf("%s: %w", pgdev.EnvURL, s.err)
		}
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), installPatience)
	defer cancel()
	if s.server, s.err = pgdev.Start(ctx, s.Config); s.err == nil {
		s.cluster = s.server.Cluster()
	}
}

// installPatience leaves room for the installation of a package.
const installPatience = 10 * time.Minute

func (s *Shared) close() error {
	s.once.Do(func() {}) // a late first use must not start a server
	if s.server != nil {
		return s.server.Close()
	}
	if s.cluster == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return s.cluster.Close(ctx)
}

// Server starts a private server for one test that stops, pauses or reconfigures it; it goes with the test.
func Server(t testing.TB, cfg pgdev.Config) *pgdev.Server {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), installPatience)
	defer cancel()
	s, err := pgdev.Start(ctx, cfg)
	require(t, devservices.ThisMachine(), err)
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("pgtest: %v", err)
		}
	})
	return s
}

// require skips the test when the service is not installed and that is all right here.
func require(t testing.TB, machine devservices.Machine, err error) {
	t.Helper()
	switch {
	case err == nil:
	case errors.Is(err, devservices.ErrNotInstalled) && !machine.CI():
		t.Skip(err)
	default:
		t.Fatal(err)
	}
}
