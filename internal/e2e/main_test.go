package e2e

import (
	"os"
	"testing"

	"github.com/outboxrelay/outbox/internal/crashtest"
	"github.com/outboxrelay/outbox/internal/devservices/pgtest"
)

var postgres pgtest.Shared

// suite runs the tests with the shared server.
type suite struct{ m *testing.M }

func (s suite) Run() int {
	defer func() { os.RemoveAll(built.dir) }()
	return postgres.Run(s.m)
}

func TestMain(m *testing.M) {
	os.Exit(crashtest.Main(suite{m}, map[string]crashtest.Role{"publisher": publish, "bulk": publishAtOnce, "relay": relay, "applier": applier, "redriver": redriver}))
}

// plays lets a test run beside others, which kills processes or stops servers; it takes seconds, and make test-short leaves it out.
func plays(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("takes seconds")
	}
	t.Parallel()
}
