package history

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"
)

// Whatever the schedule, kills, lost leases and racing transactions, a correct system looks correct.
func TestACorrectSystemHasNoViolations(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		seed := rapid.Uint64().Draw(t, "seed")
		steps := rapid.IntRange(0, 3000).Draw(t, "steps")
		events := simulate(rand.New(rand.NewPCG(seed, 0)).IntN, "", steps)
		if err := Check(events, Options{}).Err(); err != nil {
			t.Fatal(err)
		}
	})
}

// The simulation is worth nothing if what the checker excuses does not happen in it.
func TestTheSimulationIsEventful(t *testing.T) {
	var all Counts
	deferredTo := 0
	for seed := range uint64(20) {
		report := Check(simulate(rand.New(rand.NewPCG(seed, 1)).IntN, "", 3000), Options{})
		c := report.Counts
		all.Committed += c.Committed
		all.RolledBack += c.RolledBack
		all.Unknown += c.Unknown
		all.Duplicates += c.Duplicates
		all.OutsideLease += c.OutsideLease
		all.Fenced += c.Fenced
		all.LeasesLost += c.LeasesLost
		deferredTo += c.Failed
	}
	t.Logf("%+v, failed %d", all, deferredTo)
	for name, n := range map[string]int{
		"committed": all.Committed, "rolled back": all.RolledBack, "unknown": all.Unknown, "duplicates": all.Duplicates,
		"outside lease": all.OutsideLease, "fenced": all.Fenced, "leases lost": all.LeasesLost, "failed": deferredTo,
	} {
		if n < 10 {
			t.Errorf("%s: only %d", name, n)
		}
	}
}

func TestABrokenSystemIsFoundOut(t *testing.T) {
	const runs = 10
	for _, bug := range bugNames() {
		t.Run(bug, func(t *testing.T) {
			found := map[ViolationKind]int{}
			for seed := range uint64(runs) {
				report := Check(simulate(rand.New(rand.NewPCG(seed, 2)).IntN, bug, 1500), Options{})
				for _, kind := range kindsOf(report) {
					found[kind]++
				}
			}
			t.Logf("of %d runs: %v", runs, fmt.Sprint(found))
			if want := simBugs[bug]; found[want] < 2 {
				t.Errorf("%s was found in %d of %d runs", want, found[want], runs)
			}
		})
	}
}
