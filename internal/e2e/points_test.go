//go:build failpoint

package e2e

import (
	"strings"
	"testing"
	"time"

	"github.com/outboxrelay/outbox/internal/crashtest"
	"github.com/outboxrelay/outbox/internal/failpoint"
	"github.com/outboxrelay/outbox/internal/history"
)

// TestRelayKilledAtEachStep: a relay is killed at each step between claim and settle.
func TestRelayKilledAtEachStep(t *testing.T) {
	for _, point := range []string{
		"claim.before:3", "sent.claim:3", "claim.after:3", "deliver.before:30", "deliver.after:30",
		"settle.before:2", "sent.settle_delivered", "sent.settle", "settle.after:2", "sent.beat:2",
	} {
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			db := newDatabase(t)
			h := crashtest.New(t)
			p := plan{URL: db.url, Lease: time.Second, Slots: 20, FailEvery: 10, Seed: 1, Messages: 400, Keys: 40, Work: 20 * time.Millisecond}
			publisher := h.Start("publisher", crashtest.Options{Env: p.env()})
			publisher.Await("published")
			publisher.Wait()

			victim := h.Start("relay", crashtest.Options{Env: p.env(), Failpoint: point})
			name, _, _ := strings.Cut(point, ":")
			victim.Await(failpoint.Reached(name))
			victim.Kill()
			inFlight := db.count(t.Context(), listed)

			killed := time.Now()
			heir := h.Start("relay", crashtest.Options{Env: p.env()})
			heir.Await("ready")
			db.drained(t, time.Minute)
			t.Logf("delivered %v after the kill", time.Since(killed))
			heir.Terminate()
			counts := h.Check(history.Options{})
			if counts.Duplicates > max(inFlight, 0) {
				t.Errorf("%d duplicates, but only %d messages were in flight", counts.Duplicates, inFlight)
			}
			if n := db.count(t.Context(), dead); n != 0 {
				t.Errorf("%d messages are dead", n)
			}
		})
	}
}

// TestEffectsKilledAroundTheCommit: the process dies when its handler has settled and not committed, or has committed and
// its relay does not know yet.
func TestEffectsKilledAroundTheCommit(t *testing.T) {
	for _, point := range []string{"effect.settled", "effect.committed"} {
		t.Run(point, func(t *testing.T) {
			db := newDatabase(t)
			h := crashtest.New(t)
			db.publishEffects(t, 20, 3)
			p := plan{URL: db.url, Lease: time.Second, Slots: 5}
			first := h.Start("applier", crashtest.Options{Env: p.env(), Failpoint: point + ":5"})
			first.Await(failpoint.Reached(point))
			first.Kill()
			second := h.Start("applier", crashtest.Options{Env: p.env()})
			db.drained(t, time.Minute)
			second.Await("ready")
			second.Terminate()
			if err := db.appliedOnce(20); err != nil {
				t.Error(err)
			}
		})
	}
}
