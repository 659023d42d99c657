//go:build unix

package crashtest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"go.uber.org/goleak"

	"github.com/outboxrelay/outbox/internal/history"
)

// What a child process is told by its environment and its open files.
const (
	roleEnv    = "OUTBOX_TEST_ROLE"
	nameEnv    = "OUTBOX_TEST_NAME"
	historyEnv = "OUTBOX_TEST_HISTORY"
	announceFD = 3
)

// Role is what a child process does. It ends when ctx does, which is when the harness terminates it in order
// (SIGTERM), and its error is the process's failure. An error that is ctx's own is none.
type Role func(ctx context.Context, c *Child) error

// Child is the process as a Role sees it.
type Child struct {
	Name string
	// Log is the process's history, in which Started was written already.
	Log *history.Log

	announce *os.File
}

// Announce tells the harness a line, which Process.Await waits for. It has no line break.
func (c *Child) Announce(line string) error {
	if _, err := c.announce.WriteString(line + "\n"); err != nil {
		return fmt.Errorf("announce %q: %w", line, err)
	}
	return nil
}

// Main runs the role that the process was started in, or else the tests, with a check for leaked goroutines
// after them; it returns the exit code. The tests are a *testing.M or something that runs one.
func Main(tests interface{ Run() int }, roles map[string]Role) int {
	name, child := os.LookupEnv(roleEnv)
	if !child {
		return runTests(tests)
	}
	role, known := roles[name]
	if !known {
		fmt.Fprintf(os.Stderr, "%s: role %q is not one of this program's\n", roleEnv, name)
		return 2
	}
	if err := runChild(role); err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
		return 1
	}
	return 0
}

func runTests(tests interface{ Run() int }) int {
	code := tests.Run()
	if err := goleak.Find(); code == 0 && err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

func runChild(role Role) (err error) {
	go exitWithParent()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	c := &Child{Name: os.Getenv(nameEnv), announce: os.NewFile(announceFD, "announcements")}
	if c.Log, err = history.Open(os.Getenv(historyEnv), c.Name); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Log.Close()) }()
	if err := c.Log.Append(history.Event{Kind: history.Started}); err != nil {
		return err
	}
	err = role(ctx, c)
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		return nil
	}
	return err
}

// exitWithParent ends the process when the harness is gone: it holds the other end of standard input and
// never writes. The goroutine lives as long as the process.
func exitWithParent() {
	_, _ = io.Copy(io.Discard, os.Stdin)
	os.Exit(3)
}
