package storetest

import (
	"cmp"
	"context"
	"slices"
	"testing"
	"time"
)

// Case demands one behaviour.
type Case struct {
	// Name is the behaviour.
	Name string
	// Guarantee is what it defends.
	Guarantee Guarantee
	run       func(e *env)
}

// Guarantee is one of the promises that users are given.
type Guarantee string

// The guarantees.
const (
	Atomic        Guarantee = "a message exists if and only if the transaction committed"
	AtLeastOnce   Guarantee = "a committed message is delivered, whatever crashes"
	NoDouble      Guarantee = "two live relays never hold the same message, and a late result is refused"
	OrderPerKey   Guarantee = "messages of a key are delivered one after another in publish order"
	Bounded       Guarantee = "a relay never holds more than it asked for"
	NothingLost   Guarantee = "every end of a message is known"
	AttemptsCount Guarantee = "only a rejection of the message spends an attempt"
	Prompt        Guarantee = "a relay learns soon what it can deliver"
)

// Cases returns all cases of the suite.
func Cases() []Case {
	return slices.Concat(
		publishCases(), dedupCases(), delayCases(), topicCases(), limitCases(),
		leaseCases(), takeoverCases(), suspectCases(), tokenCases(), givenBackCases(),
		settleCases(), ownSettleCases(), retryCases(), parkCases(), orderCases(), waitCases(), raceCases(), historyCases(), operatorCases(), operatorHeadCases(),
		ifKept(archiveCases()), ifKept(purgeCases()), ifKept(replayCases()), ifKept(boundCases()),
	)
}

// Run runs every case as a subtest, each with a Harness of its own. open may call t.Parallel. A case that skips although
// its Features do not say so fails.
func Run(t *testing.T, open func(t *testing.T) Harness) {
	for _, c := range Cases() {
		t.Run(c.Name, func(t *testing.T) {
			h := open(t)
			t.Cleanup(func() {
				if t.Skipped() && !h.Features().lacks(c.Name) {
					t.Error("the case does not apply, and the store's features do not say so")
				}
			})
			c.Run(t, h)
		})
	}
}

// NotApplicable are the cases that do not apply to a store with these features: what it passes are all others.
func NotApplicable(f Features) (names []string) {
	for _, c := range Cases() {
		if f.lacks(c.Name) || c.Guarantee == OwnSettle && !f.OwnSettle {
			names = append(names, c.Name)
		}
	}
	return names
}

// lacks reports whether a case does not apply.
func (f Features) lacks(name string) bool {
	return f.OneWriter && slices.Contains(lateCommits, name) || !f.Notifications && slices.Contains(wakeUps, name) ||
		!f.Archive && isAbout(name, archiveCases(), purgeCases(), replayCases(), boundCases())
}

func isAbout(name string, cases ...[]Case) bool {
	return slices.ContainsFunc(slices.Concat(cases...), func(c Case) bool { return c.Name == name })
}

// Cases that a store without the feature cannot pass or fail.
var (
	lateCommits = []string{
		"a suspect waits for an older message of its key",
		"a suspect that waits for its key keeps no other suspect waiting",
	}
	wakeUps = []string{
		"Wait returns early after a commit",
		"Wait returns early after messages were given back",
		"a wake-up between looking and waiting is not lost",
		"Wait returns early when a key is free for another lane",
		"Wait returns early after an operator's change",
	}
)

// caseTimeout is how long a case may last.
const caseTimeout = 2 * time.Minute

// Run runs the case; t need not be a test's own.
func (c Case) Run(t testing.TB, h Harness) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), caseTimeout)
	defer cancel()
	t.Logf("defends: %s", c.Guarantee)
	e := &env{TB: t, ctx: ctx, h: h, patience: cmp.Or(h.Features().Patience, 10*time.Second)}
	defer e.end()
	c.run(e)
}
