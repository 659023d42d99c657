package e2e

import (
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/outboxrelay/outbox/internal/crashtest"
	"github.com/outboxrelay/outbox/internal/devservices/pgdev"
	"github.com/outboxrelay/outbox/internal/devservices/pgtest"
	"github.com/outboxrelay/outbox/internal/history"
	"github.com/outboxrelay/outbox/pgstore"
)

// following counts the live relays whose lane follows the stream, as their last heartbeats have told.
const following = `select count(*) from outbox.relay where streaming and lease_until > clock_timestamp()
	and stream @> '{"state": "streaming", "lanes": [{"state": "following"}]}'`

// newStreamingServer has a short patience with relays that hang, and streams even small transactions while they run.
func newStreamingServer(t *testing.T) *database {
	t.Helper()
	server := pgtest.Server(t, pgdev.Config{Settings: map[string]string{"wal_sender_timeout": "1s", "logical_decoding_work_mem": "64kB"}})
	name, err := server.Cluster().CreateFrom(t.Context(), "migrated", migrate)
	if err != nil {
		t.Fatal(err)
	}
	return openDatabase(t, server.URL(name))
}

// TestEngineChanges: under a steady load the relays are killed and come back with the other engine, until both are side by
// side, all stream or all poll. make chaos plays it with more messages.
func TestEngineChanges(t *testing.T) {
	plays(t)
	c := &storm{t: t, seed: seedOf(t), db: newDatabase(t), h: crashtest.New(t)}
	c.random = rand.New(rand.NewPCG(c.seed, 0))
	n := chaosMessages(t)
	c.plan = plan{URL: c.db.url, Lease: 2 * time.Second, Slots: 50, FailEvery: 20, Seed: c.seed, Messages: n, Keys: 100, Defer: 50,
		Pause: 6 * time.Millisecond, Work: 2 * time.Millisecond, Quiet: true}
	c.fleet = startRelays(c.h, c.plan, 3)
	publisher := c.h.Start("publisher", crashtest.Options{Env: c.plan.env()})
	share := max(n/4, 1)
	for i, phase := range []struct {
		engines []pgstore.Engine
		streams bool
	}{
		{[]pgstore.Engine{pgstore.EngineWAL}, true},
		{[]pgstore.Engine{pgstore.EnginePoll, pgstore.EngineWAL}, false},
		{[]pgstore.Engine{pgstore.EnginePoll}, false},
	} {
		until(t, 5*time.Minute, "a part of the messages is published", func() bool {
			return c.db.count(t.Context(), "select last_value from outbox.seq") > (i+1)*share
		})
		for k := range c.fleet {
			c.replace(k, phase.engines[k%len(phase.engines)])
		}
		if phase.streams {
			until(t, time.Minute, "a relay follows the stream", func() bool { return c.db.count(t.Context(), following) == 1 })
		}
	}
	until(t, 5*time.Minute, "nearly all is published", func() bool {
		return c.db.count(t.Context(), "select last_value from outbox.seq") > n*9/10
	})
	publisher.Wait()
	c.db.drained(t, 5*time.Minute)
	for _, r := range c.fleet {
		r.Terminate()
	}
	counts := c.h.Check(history.Options{})
	t.Logf("%d kills, %+v", c.kills, counts)
	if counts.Committed < n*9/10 || counts.Deaths < c.kills || counts.Failed == 0 {
		t.Errorf("the test did not do what it was meant to: %+v", counts)
	}
}

// replace kills a relay and starts another one.
func (c *storm) replace(i int, engine pgstore.Engine) {
	c.t.Helper()
	c.fleet[i].Kill()
	c.kills++
	p := c.plan
	p.Engine = engine
	c.fleet[i] = startRelays(c.h, p, 1)[0]
}

// TestStreamerSuspended: the relay that streams is stopped until the server has given it up and another streams and has
// taken its messages. When it goes on, its results are refused.
func TestStreamerSuspended(t *testing.T) {
	plays(t)
	db := newStreamingServer(t)
	h := crashtest.New(t)
	p := plan{URL: db.url, Engine: pgstore.EngineWAL, Quiet: true, Lease: time.Second, Slots: 20, Seed: 3, Messages: 20, Keys: 200,
		Work: 3 * time.Second} // longer than it takes to notice
	first := startRelays(h, p, 1)[0]
	until(t, time.Minute, "the relay follows the stream", func() bool { return db.count(t.Context(), following) == 1 })
	second := startRelays(h, p, 1)[0]
	publisher := h.Start("publisher", crashtest.Options{Env: p.env()})
	until(t, 20*time.Second, "the relay delivers", func() bool {
		return slices.ContainsFunc(h.History(), func(e history.Event) bool {
			return e.Kind == history.Begun && e.Process == "relay-1"
		})
	})
	first.Suspend()
	until(t, time.Minute, "the other relay streams and has taken over", func() bool {
		return db.count(t.Context(), "select count(*) from outbox.relay") == 1 &&
			db.count(t.Context(), "select count(*) from outbox.relay where streaming and pid = "+strconv.Itoa(second.PID())) == 1
	})
	first.Resume()
	until(t, 20*time.Second, "the first relay has begun again", func() bool {
		return db.count(t.Context(), "select count(*) from outbox.relay") == 2
	})
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

// TestKilledInALargeTransaction: relays are killed while a large transaction is streamed to them, before its commit and
// after it. make chaos plays it with more messages and kills.
func TestKilledInALargeTransaction(t *testing.T) {
	plays(t)
	db := newStreamingServer(t)
	h := crashtest.New(t)
	n, kills := 12_000, 3
	if chaosMessages(t) > 100_000 {
		n, kills = 100_000, 20
	}
	p := plan{URL: db.url, Engine: pgstore.EngineWAL, Quiet: true, Lease: time.Second, Slots: 500, Seed: seedOf(t), Messages: n, Keys: 500, Work: time.Millisecond}
	r := startRelays(h, p, 1)[0]
	until(t, time.Minute, "the relay follows the stream", func() bool { return db.count(t.Context(), following) == 1 })
	bulk := h.Start("bulk", crashtest.Options{Env: p.env()})
	bulk.Await("inserted")
	for i := range kills {
		r.Kill()
		r = startRelays(h, p, 1)[0]
		left := n - n*(i+1)/(kills+1)
		until(t, 5*time.Minute, "it has delivered a part", func() bool {
			return db.count(t.Context(), "select count(*) from outbox.message") <= left
		})
	}
	bulk.Wait()
	db.drained(t, 5*time.Minute)
	r.Terminate()
	counts := h.Check(history.Options{})
	t.Logf("%+v", counts)
	if counts.Committed != n || counts.Deaths != kills {
		t.Errorf("the test did not do what it was meant to: %+v", counts)
	}
	until(t, 20*time.Second, "the relays that were killed have left no slot", func() bool {
		return db.count(t.Context(), "select count(*) from pg_replication_slots") == 0
	})
}

// TestStreamerOfOtherTopics: what only a relay takes that does not stream is delivered by it, and when the one that streams
// is killed, it streams within seconds.
func TestStreamerOfOtherTopics(t *testing.T) {
	plays(t)
	db := newDatabase(t)
	h := crashtest.New(t)
	p := plan{URL: db.url, Engine: pgstore.EngineWAL, Quiet: true, Lease: 2 * time.Second, Slots: 20, Seed: 5, Messages: 200, Keys: 20,
		Topics: []string{"e2e.a", "e2e.b"}}
	left, right := p, p
	left.Take, right.Take = []string{"e2e.a"}, []string{"e2e.b"}
	first := startRelays(h, left, 1)[0]
	until(t, time.Minute, "the relay follows the stream", func() bool { return db.count(t.Context(), following) == 1 })
	second := startRelays(h, right, 1)[0]
	publisher := h.Start("publisher", crashtest.Options{Env: p.env()})
	publisher.Wait()
	db.drained(t, 10*time.Second)
	first.Kill()
	until(t, 10*time.Second, "the other one streams", func() bool {
		return db.count(t.Context(), "select count(*) from outbox.relay where streaming and pid = "+strconv.Itoa(second.PID())) == 1
	})
	second.Terminate()
	t.Logf("%+v", h.Check(history.Options{}))
}
