package e2e

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/outboxrelay/outbox/internal/crashtest"
	"github.com/outboxrelay/outbox/internal/history"
)

// TestRelaysKilledAtRandom: relays are killed at random while they deliver.
func TestRelaysKilledAtRandom(t *testing.T) {
	plays(t)
	for _, relays := range []int{2, 4, 8} {
		t.Run(fmt.Sprint(relays, " relays"), func(t *testing.T) {
			t.Parallel()
			seed := seedOf(t)
			random := rand.New(rand.NewPCG(seed, 0))
			db := newDatabase(t)
			h := crashtest.New(t)
			p := plan{URL: db.url, Lease: 2 * time.Second, Slots: 50, FailEvery: 50, Seed: seed, Messages: 10_000, Keys: 200,
				Pause: 4 * time.Millisecond, Work: 2 * time.Millisecond}
			start := func() *crashtest.Process {
				r := h.Start("relay", crashtest.Options{Env: p.env()})
				r.Await("ready")
				return r
			}
			fleet := make([]*crashtest.Process, relays)
			for i := range fleet {
				fleet[i] = start()
			}
			publisher := h.Start("publisher", crashtest.Options{Env: p.env()})
			kills := 0
			for done := publisher.Done(); done != nil; {
				select {
				case <-done:
					done = nil
				case <-time.After(time.Duration(100+random.IntN(400)) * time.Millisecond):
				}
				i := random.IntN(relays)
				until(t, time.Minute, "messages are in flight", func() bool {
					return done == nil || db.count(t.Context(), listed) > 0
				})
				fleet[i].Kill()
				fleet[i] = start()
				kills++
			}
			db.drained(t, 3*time.Minute)
			for _, r := range fleet {
				r.Terminate()
			}
			counts := h.Check(history.Options{})
			t.Logf("%d kills, %+v", kills, counts)
			if counts.Committed < 9_000 || counts.Deaths < 2 || counts.RolledBack == 0 {
				t.Errorf("the test did not do what it was meant to: %+v", counts)
			}
			if n := db.count(t.Context(), dead); n != 0 {
				t.Errorf("%d messages are dead: the death of a relay has cost attempts", n)
			}
		})
	}
}

// A relay that is stopped past its lease and continued finds its claims taken and is refused.
func TestRelaySuspendedPastItsLease(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	h := crashtest.New(t)
	p := plan{URL: db.url, Lease: time.Second, Slots: 20, Seed: 3, Messages: 60, Keys: 40, Work: 300 * time.Millisecond}
	first := h.Start("relay", crashtest.Options{Env: p.env()})
	first.Await("ready")
	publisher := h.Start("publisher", crashtest.Options{Env: p.env()})
	until(t, 20*time.Second, "the relay delivers", func() bool {
		return slices.ContainsFunc(h.History(), func(e history.Event) bool { return e.Kind == history.Begun })
	})
	first.Suspend()
	second := h.Start("relay", crashtest.Options{Env: p.env()})
	second.Await("ready")
	until(t, 20*time.Second, "the other relay has taken over", func() bool {
		return db.count(t.Context(), "select count(*) from outbox.relay") == 1
	})
	first.Resume()
	publisher.Wait()
	db.drained(t, 3*time.Minute)
	first.Terminate()
	second.Terminate()
	counts := h.Check(history.Options{})
	t.Logf("%+v", counts)
	if counts.Fenced == 0 {
		t.Error("no late result of the suspended relay was refused")
	}
}
