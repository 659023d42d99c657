package outboxtest

import (
	"slices"
	"sync"
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
// there for its fault, and each case finds some wrong store.
func TestSuiteFindsWrongStores(t *testing.T) {
	if testing.Short() {
		t.Skip("runs the suite once for each wrong store")
	}
	var mu sync.Mutex
	finds := map[string]bool{}
	t.Run("wrong", func(t *testing.T) {
		for _, w := range slices.Concat(wrongRules(), wrongStores(), wrongParks(), wrongTransactions(), wrongOperators(), wrongHeads(),
			wrongArchives(), wrongPurges(), wrongReplays(), wrongOwnSettles()) {
			t.Run(w.fault, func(t *testing.T) {
				t.Parallel()
				failed := failures(t, w.plant)
				for _, name := range w.caught {
					for try := 0; !failed[name] && try < chances; try++ {
						failed[name] = fails(t, name, w.plant)
					}
					if !failed[name] {
						t.Errorf("not found by %q; found by %q", name, found(failed))
					}
				}
				mu.Lock()
				defer mu.Unlock()
				for _, name := range found(failed) {
					finds[name] = true
				}
			})
		}
	})
	for _, c := range storetest.Cases() {
		if !finds[c.Name] {
			t.Errorf("the case %q found no wrong store", c.Name)
		}
	}
}

// found returns the names of the cases that failed.
func found(failed map[string]bool) (names []string) {
	for name, did := range failed {
		if did {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// chances is how often a case may run again that should have failed: a random schedule misses one fault or another in a
// few of a hundred runs.
const chances = 4

// failures runs the whole suite on wrong stores and returns the names of the cases that failed.
func failures(t *testing.T, plant func(h *harness)) map[string]bool {
	failed := map[string]bool{}
	for _, c := range storetest.Cases() {
		failed[c.Name] = caseFails(t, c, plant)
	}
	return failed
}

func fails(t *testing.T, name string, plant func(h *harness)) bool {
	return slices.ContainsFunc(storetest.Cases(), func(c storetest.Case) bool {
		return c.Name == name && caseFails(t, c, plant)
	})
}

func caseFails(t *testing.T, c storetest.Case, plant func(h *harness)) bool {
	h := newHarness(soundRules())
	h.patience = 100 * time.Millisecond // the store answers at once; what does not come is lost
	plant(h)
	return planted.Failures(t, func(t testing.TB) { c.Run(t, h) }) != ""
}
