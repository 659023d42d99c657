package outboxtest

import (
	"slices"
	"testing"
	"time"

	"github.com/outboxrelay/outbox/internal/planted"
	"github.com/outboxrelay/outbox/storetest"
)

// wrong is a store with one fault, and cases of the suite that must find it.
type wrong struct {
	fault  string
	plant  func(h *harness)
	caught []string
}

// TestSuiteFindsWrongStores shows the suite that it can fail: each wrong store is found by the cases that are
// there for its fault, and each case is there for some wrong store.
func TestSuiteFindsWrongStores(t *testing.T) {
	cases, finds := map[string]storetest.Case{}, map[string]bool{}
	for _, c := range storetest.Cases() {
		cases[c.Name] = c
	}
	for _, w := range slices.Concat(wrongRules(), wrongStores(), wrongParks(), wrongTransactions(), wrongOperators(), wrongHeads(),
		wrongArchives(), wrongPurges(), wrongReplays(), wrongOwnSettles()) {
		for _, name := range w.caught {
			finds[name] = true
		}
		t.Run(w.fault, func(t *testing.T) {
			t.Parallel()
			for _, name := range w.caught {
				if c, ok := cases[name]; !ok || !fails(t, c, w.plant) {
					t.Errorf("not found by %q, if there is such a case; found by %q", name, finders(t, w.plant))
				}
			}
		})
	}
	for name := range cases {
		if !finds[name] {
			t.Errorf("the case %q is there for no wrong store", name)
		}
	}
}

// finders runs the whole suite on a wrong store and returns the names of the cases that fail.
func finders(t *testing.T, plant func(h *harness)) (names []string) {
	for _, c := range storetest.Cases() {
		if caseFails(t, c, plant) {
			names = append(names, c.Name)
		}
	}
	return names
}

// chances is how often a case may run that should fail: a random schedule misses one fault or another in a few of a
// hundred runs.
const chances = 5

func fails(t *testing.T, c storetest.Case, plant func(h *harness)) bool {
	for range chances {
		if caseFails(t, c, plant) {
			return true
		}
	}
	return false
}

func caseFails(t *testing.T, c storetest.Case, plant func(h *harness)) bool {
	h := newHarness(soundRules())
	h.patience = 100 * time.Millisecond // the store answers at once; what does not come is lost
	plant(h)
	return planted.Failures(t, func(t testing.TB) { c.Run(t, h) }) != ""
}
