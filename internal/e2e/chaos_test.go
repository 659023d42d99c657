package e2e

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/outboxrelay/outbox/internal/crashtest"
	"github.com/outboxrelay/outbox/internal/history"
)

// TestChaos: four relays as processes, killed at random for as long as messages are published and delivered, under each
// order policy. Nothing is lost, keys stay in order, nothing is delivered twice at a time, and no death spends an
// attempt. make chaos plays it with 200,000 messages for each policy.
func TestChaos(t *testing.T) {
	for _, order := range []string{"skip", "none"} {
		t.Run(order, func(t *testing.T) { chaos(t, order) })
	}
}

func chaos(t *testing.T, order string) {
	c := &storm{t: t, seed: seedOf(t), db: newDatabase(t), h: crashtest.New(t)}
	c.random = rand.New(rand.NewPCG(c.seed, 0))
	n := chaosMessages(t)
	c.plan = plan{URL: c.db.url, Lease: 2 * time.Second, Slots: 50, FailEvery: 20, DoomEvery: 199, Order: order,
		Seed: c.seed, Messages: n, Keys: n / 200, Defer: 50, Work: 5 * time.Millisecond}
	c.fleet = startRelays(c.h, c.plan, 4)
	publisher := c.h.Start("publisher", crashtest.Options{Env: c.plan.env()})
	c.rage(publisher.Done())
	publisher.Wait()
	c.db.drained(t, 5*time.Minute)
	for _, r := range c.fleet {
		r.Terminate()
	}
	counts := c.h.Check(history.Options{Order: func(string) history.Order { return policies[order].history }})
	t.Logf("%d kills, %+v", c.kills, counts)
	if counts.Committed < n*9/10 || counts.Deaths < 3 || counts.RolledBack == 0 || counts.Failed == 0 {
		t.Errorf("the test did not do what it was meant to: %+v", counts)
	}
	c.checkDead()
}

// storm is a fleet whose relays are killed and replaced.
type storm struct {
	t      *testing.T
	seed   uint64
	random *rand.Rand
	db     *database
	h      *crashtest.Harness
	plan   plan
	fleet  []*crashtest.Process
	kills  int
}

// rage kills a relay every half second or so, until everything is published and half of what was left then is
// delivered.
func (c *storm) rage(published <-chan struct{}) {
	backlog := -1
	for {
		select {
		case <-published:
			published, backlog = nil, c.db.count(c.t.Context(), everything)
		case <-time.After(time.Duration(200+c.random.IntN(600)) * time.Millisecond):
		}
		if backlog >= 0 && c.db.count(c.t.Context(), everything) <= backlog/2 && c.kills >= 3 {
			return
		}
		until(c.t, time.Minute, "messages are in flight, or everything is published", func() bool {
			return published == nil || c.db.count(c.t.Context(), listed) > 0
		})
		i := c.random.IntN(len(c.fleet))
		c.fleet[i].Kill()
		c.fleet[i] = startRelays(c.h, c.plan, 1)[0]
		c.kills++
	}
}

// checkDead: messages are dead because their handler said so, at the attempt that it was.
func (c *storm) checkDead() {
	if n := c.db.count(c.t.Context(), `select count(*) from outbox.dead where error_class <> 'permanent'`); n != 0 {
		c.t.Errorf("%d messages are dead for another reason than their handler's", n)
	}
	if n := c.db.count(c.t.Context(), dead); n == 0 {
		c.t.Error("no message is dead: the test did not do what it was meant to")
	}
}
