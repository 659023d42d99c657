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
		settleCases(), retryCases(), parkCases(), orderCases(), waitCases(), raceCases(), historyCases(), operatorCases(), operatorHeadCases(),
		archiveCases(), purgeCases(), replayCases(),
	)
}

// Run runs every case as a subtest, each with a Harness of its own. open may call t.Parallel.
func Run(t *testing.T, open func(t *testing.T) Harness) {
	for _, c := range Cases() {
		t.Run(c.Name, func(t *testing.T) { c.Run(t, open(t)) })
	}
}

// Run runs the case; t need not be a test's own.
func (c Case) Run(t testing.TB, h Harness) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	t.Logf("defends: %s", c.Guarantee)
	e := &env{TB: t, ctx: ctx, h: h, patience: cmp.Or(h.Features().Patience, 10*time.Second)}
	defer e.end()
	c.run(e)
}
