package e2e

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/outboxrelay/outbox/internal/crashtest"
	"github.com/outboxrelay/outbox/internal/history"
)

// Fleets at the edges: few slots, few or very many keys, half of the first attempts failing, scheduled messages,
// large payloads beside a small limit, short leases; relays are killed at random.
func TestFleetsAtTheEdges(t *testing.T) {
	plays(t)
	for name, c := range map[string]struct {
		plan
		relays, kills int
	}{
		"one slot, one key":       {plan{Lease: time.Second, Slots: 1, FailEvery: 4, Messages: 150, Keys: 1, Defer: 10}, 4, 4},
		"one slot, some keys":     {plan{Lease: 2 * time.Second, Slots: 1, FailEvery: 2, Messages: 600, Keys: 20, Defer: 3}, 4, 4},
		"one slot, no keys":       {plan{Lease: 2 * time.Second, Slots: 1, FailEvery: 2, Messages: 1000, Defer: 3}, 4, 4},
		"more keys than windows":  {plan{Lease: 2 * time.Second, Slots: 500, FailEvery: 2, Messages: 15_000, Keys: 10_000, Defer: 5}, 2, 3},
		"half fails, few keys":    {plan{Lease: 2 * time.Second, Slots: 50, FailEvery: 2, Messages: 2000, Keys: 40, Defer: 2}, 3, 4},
		"short leases":            {plan{Lease: time.Second, Slots: 20, FailEvery: 10, Messages: 3000, Keys: 100, Work: 5 * time.Millisecond}, 8, 6},
		"large payloads":          {plan{Lease: 2 * time.Second, Slots: 20, FailEvery: 5, Messages: 800, Keys: 50, Bytes: 1 << 20, BatchBytes: 600_000}, 3, 2},
		"large payloads, no keys": {plan{Lease: 2 * time.Second, Slots: 20, FailEvery: 5, Messages: 800, Bytes: 1 << 20, BatchBytes: 100_000, Work: time.Millisecond}, 3, 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c.Seed = seedOf(t)
			random := rand.New(rand.NewPCG(c.Seed, 0))
			db := newDatabase(t)
			c.URL = db.url
			h := crashtest.New(t)
			fleet := startRelays(h, c.plan, c.relays)
			publisher := h.Start("publisher", crashtest.Options{Env: c.env()})
			for range c.kills {
				time.Sleep(time.Duration(100+random.IntN(900)) * time.Millisecond)
				i := random.IntN(c.relays)
				fleet[i].Kill()
				fleet[i] = startRelays(h, c.plan, 1)[0]
			}
			publisher.Wait()
			db.drained(t, 3*time.Minute)
			for _, r := range fleet {
				r.Terminate()
			}
			t.Logf("%+v", h.Check(history.Options{}))
			if n := db.count(t.Context(), dead); n != 0 {
				t.Errorf("%d messages are dead", n)
			}
		})
	}
}

// Mixed fleets: the same destination takes other topics in other relays, keys run across topics, one topic is
// without order, another destination takes the rest, and topics are paused meanwhile.
func TestMixedFleet(t *testing.T) {
	plays(t)
	for _, slots := range []int{1, 30} {
		t.Run(fmt.Sprint(slots, " slots"), func(t *testing.T) {
			t.Parallel()
			seed := seedOf(t)
			random := rand.New(rand.NewPCG(seed, 0))
			db := newDatabase(t)
			h := crashtest.New(t)
			p := plan{URL: db.url, Lease: 2 * time.Second, Slots: slots, FailEvery: 3, Seed: seed, Messages: 40*slots + 500, Keys: 25, Defer: 4,
				Topics: []string{"e2e.a", "e2e.b", "e2e.c", unordered, "other.x"}}
			left, right := p, p
			left.Take, left.Second = []string{"e2e.a", "e2e.b", unordered}, []string{"other.>"}
			right.Take, right.Second = []string{"e2e.c", "e2e.*"}, []string{"other.x"}
			// One of each kind lives throughout: a topic that nobody handles holds no key.
			fleet := append(startRelays(h, left, 2), startRelays(h, right, 2)...)
			publisher := h.Start("publisher", crashtest.Options{Env: p.env()})
			for range 4 {
				pause := []string{"('topic', 'e2e.a')", "('topic', 'e2e.>')", "('destination', 'lane')", "('topic', 'other.*')"}[random.IntN(4)]
				db.exec(t, "insert into outbox.control (scope, name) values "+pause)
				time.Sleep(time.Duration(100+random.IntN(600)) * time.Millisecond)
				i := 2 * random.IntN(2)
				fleet[i].Kill()
				fleet[i] = startRelays(h, []plan{left, right}[i/2], 1)[0]
				db.exec(t, "delete from outbox.control")
			}
			publisher.Wait()
			db.drained(t, 3*time.Minute)
			for _, r := range fleet {
				r.Terminate()
			}
			t.Logf("%+v", h.Check(history.Options{Order: func(topic string) history.Order {
				if topic == unordered {
					return history.None
				}
				return history.Skip
			}}))
			if n := db.count(t.Context(), dead); n != 0 {
				t.Errorf("%d messages are dead", n)
			}
		})
	}
}
