package schedule

import (
	"flag"
	"os"
	"strconv"
	"testing"

	"github.com/outboxrelay/outbox/internal/devservices/pgtest"
	"github.com/outboxrelay/outbox/internal/history"
)

var postgres pgtest.Shared

func TestMain(m *testing.M) { os.Exit(postgres.Run(m)) }

// plays sets how many plans a test plays, unless the command line says it by -rapid.checks.
func plays(t *testing.T, n int) {
	t.Helper()
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "rapid.checks" })
	if given {
		return
	}
	checks := flag.Lookup("rapid.checks").Value
	before := checks.String()
	if err := checks.Set(strconv.Itoa(n)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = checks.Set(before) })
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
