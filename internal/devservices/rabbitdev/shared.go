package rabbitdev

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/outboxrelay/outbox/internal/devservices"
)

// Shared is one node for all tests of a process, started for the first that needs it: a start takes seconds. Tests
// keep apart by exchanges and queues of their own. The zero value is ready for use; a test that ends without the node
// as it found it spoils the next one. Its methods are safe for concurrent use.
type Shared struct {
	once   sync.Once
	server *Server
	err    error
}

// Run runs the tests, ends the node, looks for leaked goroutines when all tests passed, and returns the exit code for
// TestMain.
func (s *Shared) Run(m *testing.M, options ...goleak.Option) int {
	code := m.Run()
	if s.server != nil {
		if err := s.server.Close(); err != nil {
			fmt.Fprintln(os.Stderr, "rabbitdev:", err)
			code = max(code, 1)
		}
	}
	if code != 0 {
		return code
	}
	if err := goleak.Find(options...); err != nil {
		fmt.Fprintln(os.Stderr, "rabbitdev: goroutines left behind:", err)
		return 1
	}
	return 0
}

// Server is the node. Without RabbitMQ on the machine the test is skipped, or fails when the variable CI is set.
func (s *Shared) Server(t testing.TB) *Server {
	t.Helper()
	s.once.Do(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 2*startLimit)
		defer cancel()
		s.server, s.err = Start(ctx)
	})
	if errors.Is(s.err, devservices.ErrNotInstalled) && !devservices.ThisMachine().CI() {
		t.Skip(s.err)
	}
	if s.err != nil {
		t.Fatal(s.err)
	}
	return s.server
}

// Private is the node for a test that stops, pauses or alarms it. A server that OUTBOX_TEST_RABBITMQ_URL names
// cannot be, and the test is skipped.
func (s *Shared) Private(t testing.TB) *Server {
	t.Helper()
	server := s.Server(t)
	if !server.IsPrivate() {
		t.Skip(ErrExternal)
	}
	return server
}
