//go:build failpoint

package e2e

import (
	"strings"
	"testing"
	"time"

	"github.com/outboxrelay/outbox/internal/crashtest"
	"github.com/outboxrelay/outbox/internal/failpoint"
	"github.com/outboxrelay/outbox/internal/history"
	"github.com/outboxrelay/outbox/pgstore"
)

// moment is when a relay is killed.
type moment struct {
	what  string
	point string
	tell  func(*plan) // what makes the relay come there; nil: it does anyway
}

// moments are the steps of a message's way. At a point "sent" the call is on its way to the server, which carries it out
// or does not.
var moments = []moment{
	{"before a claim", "claim.before:3", nil},
	{"in a claim", "sent.claim:3", nil},
	{"after a claim", "claim.after:3", nil},
	{"before a delivery", "deliver.before:30", nil},
	{"after a delivery", "deliver.after:30", nil},
	{"before a settlement", "settle.before:2", nil},
	{"in the settlement of whole claims", "sent.settle_delivered", nil},
	{"in the settlement of some of a claim", "sent.settle", nil},
	{"after a settlement", "settle.after:2", nil},
	{"in a heartbeat", "sent.beat:2", nil},
	{"before a retry is stored", "settle.before:2", func(p *plan) { p.FailEvery = 1 }},
	{"while a retry is stored", "sent.settle:2", func(p *plan) { p.FailEvery = 1 }},
	{"after a retry was stored", "settle.after:2", func(p *plan) { p.FailEvery = 1 }},
	{"before a death is stored", "settle.before:2", func(p *plan) { p.DoomEvery = 1 }},
	{"while a death is stored", "sent.settle:2", func(p *plan) { p.DoomEvery = 1 }},
	{"after a death was stored", "settle.after:2", func(p *plan) { p.DoomEvery = 1 }},
	{"while an archive is made ready", "sent.add_partition", keeps},
	{"while delivered messages are archived", "sent.settle_delivered:2", keeps},
	{"while some of a claim are archived", "sent.settle:2", keeps},
}

func keeps(p *plan) { p.Keep = 24 * time.Hour }

// engines are both, each with a name for subtests.
var engines = map[string]pgstore.Engine{"poll": pgstore.EnginePoll, "wal": pgstore.EngineWAL}

// TestRelayKilledAtEachStep: a relay is killed at each step between claim and settle.
func TestRelayKilledAtEachStep(t *testing.T) {
	plays(t)
	for name, engine := range engines {
		for _, m := range moments {
			t.Run(name+"/"+m.what, func(t *testing.T) {
				t.Parallel()
				c := newKilling(t, engine, m.tell)
				c.publish()
				c.kill(c.h.Start("relay", crashtest.Options{Env: c.env(), Failpoint: m.point}), m.point)
				c.inherit("ready", crashtest.Options{Env: c.env()})
				c.check(t)
			})
		}
	}
}

// TestHeirKilled: the relay that has taken over what a killed one held is killed, too: with the claim on its way, and when it has
// its answer.
func TestHeirKilled(t *testing.T) {
	plays(t)
	for name, engine := range engines {
		for _, point := range []string{"sent.claim:2", "takeover.after", "takeover.after:2"} {
			t.Run(name+"/"+point, func(t *testing.T) {
				t.Parallel()
				c := newKilling(t, engine, func(p *plan) { p.Slots = p.Messages; p.Work = 2 * time.Second })
				c.publish()
				c.kill(c.h.Start("relay", crashtest.Options{Env: c.env(), Failpoint: "deliver.after"}), "deliver.after")
				c.Work, c.Slots = 10*time.Millisecond, 20
				c.kill(c.h.Start("relay", crashtest.Options{Env: c.env(), Failpoint: point}), point)
				c.inherit("ready", crashtest.Options{Env: c.env()})
				c.check(t)
			})
		}
	}
}

// TestRedriverKilled: the process that redrives dead letters is killed with a batch on its way. Another one redrives the
// rest, while a relay delivers them.
func TestRedriverKilled(t *testing.T) {
	plays(t)
	for name, engine := range engines {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newKilling(t, engine, func(p *plan) { p.Order, p.DoomEvery, p.Keys, p.Keep = "park", 1, 0, time.Hour })
			c.publish()
			relay := c.h.Start("relay", crashtest.Options{Env: c.env()})
			relay.Await("ready")
			c.db.drained(t, 3*time.Minute)
			if n := c.db.count(t.Context(), dead); n != c.Messages {
				t.Fatalf("%d of %d are dead", n, c.Messages)
			}
			c.kill(c.h.Start("redriver", crashtest.Options{Env: c.env(), Failpoint: "sent.redrive:3"}), "sent.redrive")
			left := c.db.count(t.Context(), dead)
			c.inherit("redriven", crashtest.Options{Env: c.env()})
			relay.Terminate()
			if left == 0 || left >= c.Messages {
				t.Errorf("%d of %d were left when the process was killed", left, c.Messages)
			}
			again := c.db.count(t.Context(), "select coalesce(sum((counts ->> 'changed')::int), 0) from outbox.operation")
			if n := c.db.count(t.Context(), dead); n != 0 || again != c.Messages {
				t.Errorf("%d are dead, and %d of %d were redriven", n, again, c.Messages)
			}
			if n := c.db.count(t.Context(), "select count(distinct id) from outbox.archive where outcome = 'delivered'"); n != c.Messages {
				t.Errorf("%d of %d redriven messages were delivered", n, c.Messages)
			}
		})
	}
}

// killing is a test in which a process is killed.
type killing struct {
	plan
	t        *testing.T
	db       *database
	h        *crashtest.Harness
	inFlight int // when processes were killed
	killed   time.Time
}

func newKilling(t *testing.T, engine pgstore.Engine, tell func(*plan)) *killing {
	t.Helper()
	c := &killing{t: t, db: newDatabase(t), h: crashtest.New(t)}
	c.plan = plan{URL: c.db.url, Engine: engine, Lease: time.Second, Slots: 20, FailEvery: 10, Seed: 1, Messages: 200, Keys: 20, Work: 10 * time.Millisecond}
	if tell != nil {
		tell(&c.plan)
	}
	return c
}

func (c *killing) publish() {
	c.t.Helper()
	publisher := c.h.Start("publisher", crashtest.Options{Env: c.env()})
	publisher.Await("published")
	publisher.Wait()
}

// kill waits until a process is at the point, and kills it.
func (c *killing) kill(victim *crashtest.Process, point string) {
	c.t.Helper()
	name, _, _ := strings.Cut(point, ":")
	victim.Await(failpoint.Reached(name))
	victim.Kill()
	c.inFlight += max(c.db.count(c.t.Context(), listed), 0)
	c.killed = time.Now()
}

// inherit lets another process of the role that announces the line finish the work.
func (c *killing) inherit(line string, o crashtest.Options) {
	c.t.Helper()
	role := map[string]string{"ready": "relay", "redriven": "redriver"}[line]
	heir := c.h.Start(role, o)
	heir.Await(line)
	c.db.drained(c.t, 3*time.Minute)
	c.t.Logf("delivered %v after the kill", time.Since(c.killed))
	if role == "relay" {
		heir.Terminate()
	} else {
		heir.Wait()
	}
}

// check: nothing was lost, nothing came twice that was not in flight, all that was to die did, and all that was
// delivered is in the archive once.
func (c *killing) check(t *testing.T) {
	t.Helper()
	counts := c.h.Check(history.Options{})
	if counts.Duplicates > c.inFlight {
		t.Errorf("%d duplicates, but only %d messages were in flight", counts.Duplicates, c.inFlight)
	}
	doomed := 0
	if c.DoomEvery == 1 {
		doomed = counts.Committed
	}
	if n := c.db.count(t.Context(), dead); n != doomed {
		t.Errorf("%d messages are dead, want %d", n, doomed)
	}
	if c.Keep == 0 {
		return
	}
	kept, different := c.db.count(t.Context(), "select count(*) from outbox.archive"), c.db.count(t.Context(), "select count(distinct id) from outbox.archive")
	if kept != counts.Committed || different != counts.Committed {
		t.Errorf("the archive has %d rows of %d messages, %d were delivered", kept, different, counts.Committed)
	}
}

// TestEffectsKilledAroundTheCommit: the process dies when its handler has settled and not committed, or has committed and
// its relay does not know yet.
func TestEffectsKilledAroundTheCommit(t *testing.T) {
	plays(t)
	for _, point := range []string{"effect.settled", "effect.committed"} {
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			db := newDatabase(t)
			h := crashtest.New(t)
			db.publishEffects(t, 20, 3)
			p := plan{URL: db.url, Lease: time.Second, Slots: 5}
			first := h.Start("applier", crashtest.Options{Env: p.env(), Failpoint: point + ":5"})
			first.Await(failpoint.Reached(point))
			first.Kill()
			second := h.Start("applier", crashtest.Options{Env: p.env()})
			db.drained(t, 3*time.Minute)
			second.Await("ready")
			second.Terminate()
			if err := db.appliedOnce(20); err != nil {
				t.Error(err)
			}
		})
	}
}
