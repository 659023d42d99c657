package e2e

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outboxrelay/outbox"
	"github.com/outboxrelay/outbox/internal/crashtest"
	"github.com/outboxrelay/outbox/internal/history"
	"github.com/outboxrelay/outbox/pgstore"
)

// TestChaos: four relays as processes, killed at random for as long as messages are published and delivered, under each
// order policy. Nothing is lost, keys stay in order, nothing is delivered twice at a time, and no death spends an
// attempt. make chaos plays it with 200,000 messages for each policy.
func TestChaos(t *testing.T) {
	plays(t)
	for _, order := range []string{"skip", "block", "park", "none"} {
		t.Run(order, func(t *testing.T) {
			t.Parallel()
			chaos(t, order)
		})
	}
}

func chaos(t *testing.T, order string) {
	c := &storm{t: t, seed: seedOf(t), db: newDatabase(t), h: crashtest.New(t)}
	c.operator = newOperator(t, c.db)
	c.random = rand.New(rand.NewPCG(c.seed, 0))
	n := chaosMessages(t)
	c.plan = plan{URL: c.db.url, Lease: 2 * time.Second, Slots: 50, FailEvery: 20, DoomEvery: 199, Order: order,
		Seed: c.seed, Messages: n, Keys: n / 200, Defer: 50, Work: 5 * time.Millisecond}
	c.fleet = startRelays(c.h, c.plan, 4)
	publisher := c.h.Start("publisher", crashtest.Options{Env: c.plan.env()})
	c.rage(publisher.Done())
	publisher.Wait()
	until(t, 5*time.Minute, "everything was delivered", func() bool {
		c.unpark()
		return c.db.count(t.Context(), everything) == 0 && c.db.count(t.Context(), parked) == 0
	})
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

	operator *pgstore.Store
	freed    int // parked messages
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
		c.unpark()
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

// unpark redrives or discards what an operator would find: the dead messages that hold their keys.
func (c *storm) unpark() {
	c.t.Helper()
	rows, err := c.db.pool.Query(c.t.Context(), parkedIDs)
	if err != nil {
		c.t.Fatal(err)
	}
	ids, err := pgx.CollectRows(rows, pgx.RowTo[outbox.ID])
	if err != nil {
		c.t.Fatal(err)
	}
	for _, id := range ids {
		do, kind := c.operator.Redrive, history.Redriven
		if c.freed++; c.freed%2 == 0 {
			do, kind = c.operator.Discard, history.Discarded
		}
		since := history.Now()
		report, err := do(c.t.Context(), outbox.Change{Filter: outbox.Filter{IDs: []outbox.ID{id}}, Reason: "chaos"})
		if err != nil || report.Changed != 1 {
			c.t.Fatalf("%s %s: %+v, %v", kind, id, report, err)
		}
		if err := c.h.Log().Append(history.Event{Kind: kind, Message: id.String(), Since: since}); err != nil {
			c.t.Fatal(err)
		}
	}
}

const (
	parked    = `select count(*) from outbox.dead where holds`
	parkedIDs = `select id from outbox.dead where holds order by seq limit 100`
)

// newOperator opens a store of the test's own.
func newOperator(t *testing.T, db *database) *pgstore.Store {
	t.Helper()
	store, err := pgstore.New(db.pool, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(store.Close)
	return store
}

// checkDead: messages are dead because their handler said so, where that is what becomes of them.
func (c *storm) checkDead() {
	c.t.Helper()
	if n := c.db.count(c.t.Context(), `select count(*) from outbox.dead where error_class <> 'permanent'`); n != 0 {
		c.t.Errorf("%d messages are dead for another reason than their handler's", n)
	}
	n := c.db.count(c.t.Context(), dead)
	switch c.plan.Order {
	case "block":
		if n != 0 {
			c.t.Errorf("%d messages are dead that block their keys", n)
		}
	case "park":
		if c.freed == 0 {
			c.t.Error("no message was parked: the test did not do what it was meant to")
		}
	default:
		if n == 0 {
			c.t.Error("no message is dead: the test did not do what it was meant to")
		}
	}
}
