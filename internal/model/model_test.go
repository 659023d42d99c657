package model

import (
	"errors"
	"strings"
	"testing"
)

// statesMost bounds a test's time and memory.
const statesMost = 1_500_000

// TestGuarantees: whatever happens in whatever order, no guarantee is broken.
func TestGuarantees(t *testing.T) {
	for name, w := range Worlds() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			done, err := Explore(&w.Config, statesMost)
			t.Logf("%d states, %d steps deep: %v", done.States, done.Depth, done.Steps)
			if err != nil {
				t.Fatal(err)
			}
			for _, k := range append(w.Happens, Publish, Commit, Claim, Deliver, Settle, SettleWhole) {
				if done.Steps[k] == 0 {
					t.Errorf("nothing did this: %s", k)
				}
			}
		})
	}
}

// TestEveryRuleIsNeeded: without a rule of the protocol a guarantee is broken, and the model finds it.
func TestEveryRuleIsNeeded(t *testing.T) {
	for _, c := range []struct {
		rule, world, want string
		rules             Rules
	}{
		{"a settlement asks whose claim it is", "pauses", "settled by a relay that does not hold it", Rules{NoFence: true}},
		{"claims are told apart by their tokens", "crash", "settled as delivered and nothing has accepted it", Rules{NoToken: true}},
		{"a claim leaves the keys of others", "order", "a live relay holds its key", Rules{NoHeldKeys: true}},
		{"a claim looks for a head in waiting", "order", "is claimed before message", Rules{NoHeadWaiting: true}},
		{"a claim looks for a dead head", "deaths", "is claimed before message", Rules{NoHeadDead: true}},
		{"a claim looks for a head in message", "order", "is claimed before message", Rules{NoProbe: true}},
		{"a claim leaves what others list", "pauses", "while a live relay holds it", Rules{DoubleListing: true, NoHeldKeys: true}},
		{"a base waits for open transactions", "prepared", "is never delivered", Rules{BaseTooEarly: true}},
		{"a base waits for prepared transactions", "prepared", "is never delivered", Rules{PrepareForgets: true}},
		{"a base ends with its connection", "crash with keys", "is never delivered", Rules{BaseForever: true}},
		{"the lock comes before the seq", "dedup", "is never delivered", Rules{LateLock: true}},
		{"somebody sweeps", "order", "is never delivered", Rules{NoSweep: true}},
		{"a heartbeat spares what is younger", "answers", "is delivered", Rules{NoYoung: true}},
		{"a heartbeat gives back what nobody knows of", "answers", "is never delivered", Rules{NoBeat: true}},
		{"what is behind a failure goes back", "order", "is delivered before message", Rules{KeepFollowers: true}},
		{"a relay asks for its lease before it delivers", "pauses", "is delivered", Rules{NoLeaseCheck: true}},
		{"a scheduled message that was claimed holds its key", "schedule", "is claimed before message", Rules{ScheduledFree: true}},
	} {
		t.Run(c.rule, func(t *testing.T) {
			t.Parallel()
			world := Worlds()[c.world].Config
			world.Rules = c.rules
			done, err := Explore(&world, statesMost)
			var fault *Fault
			if !errors.As(err, &fault) || !strings.Contains(fault.Err.Error(), c.want) {
				t.Fatalf("without the rule: %v (%d states)", err, done.States)
			}
			t.Logf("%v", fault)
		})
	}
}
