package schedule

import (
	"flag"
	"fmt"
	"os"
	"strconv"
	"testing"

	"github.com/outboxrelay/outbox/internal/devservices/pgtest"
	"github.com/outboxrelay/outbox/internal/history"
)

var postgres pgtest.Shared

// How many plans the tests play, those of databases three at a time, unless the command line says it by -rapid.checks.
const (
	inDatabases = 3
	inNone      = 30
)

func TestMain(m *testing.M) {
	flag.Parse()
	if err := plays(inDatabases); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(postgres.Run(m))
}

// plays sets for all tests that begin from now on how many plans they play.
func plays(n int) error {
	const checks = "rapid.checks"
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == checks })
	if given {
		return nil
	}
	return flag.Lookup(checks).Value.Set(strconv.Itoa(n))
}

// tally adds up what happened in all schedules.
type tally struct{ history.Counts }

func (a *tally) add(c history.Counts) {
	a.Committed += c.Committed
	a.RolledBack += c.RolledBack
	a.Deliveries += c.Deliveries
	a.Failed += c.Failed
	a.Duplicates += c.Duplicates
	a.LeasesLost += c.LeasesLost
}

// check: schedules in which nothing happens prove nothing.
func (a *tally) check(t *testing.T) {
	t.Helper()
	t.Logf("%+v", a.Counts)
	for what, n := range map[string]int{"committed": a.Committed, "rolled back": a.RolledBack, "failed": a.Failed} {
		if n == 0 {
			t.Errorf("nothing was %s", what)
		}
	}
}
