package e2e

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/outboxrelay/outbox/internal/crashtest"
	"github.com/outboxrelay/outbox/internal/history"
)

// One message among 500 kills the process each time; a supervisor starts the process again. That message dies of it,
// and no other has an attempt counted.
func TestMessageThatKillsItsProcess(t *testing.T) {
	plays(t)
	db := newDatabase(t)
	h := crashtest.New(t)
	p := plan{URL: db.url, Lease: time.Second, Slots: 600, MaxAttempts: 2, Seed: 19, Messages: 501, Keys: 100, Work: time.Millisecond}
	publisher := h.Start("publisher", crashtest.Options{Env: p.env()})
	publisher.Await("published")
	publisher.Wait()
	p.Poison = int64(db.count(t.Context(), "select seq from outbox.message order by seq offset 250 limit 1"))

	deaths, began := 0, time.Now()
	relay := h.Start("relay", crashtest.Options{Env: p.env()})
	until(t, 3*time.Minute, "everything was delivered or is dead", func() bool {
		select {
		case <-relay.Done():
			relay.AwaitDeath()
			deaths++
			relay = h.Start("relay", crashtest.Options{Env: p.env()})
		default:
		}
		return db.count(t.Context(), everything) == 0
	})
	t.Logf("%d deaths, %v", deaths, time.Since(began))
	relay.Await("ready")
	relay.Terminate()

	counts := h.Check(history.Options{})
	t.Logf("%+v", counts)
	if counts.Committed != 501 {
		t.Errorf("%d messages were published, not 501", counts.Committed)
	}
	if n := db.count(t.Context(), dead); n != 1 {
		t.Errorf("%d messages are dead", n)
	}
	var seq int64
	var attempts int
	var class string
	if err := db.pool.QueryRow(t.Context(), "select seq, attempts, error_class from outbox.dead order by seq <> $1 limit 1", p.Poison).
		Scan(&seq, &attempts, &class); err != nil {
		t.Fatal(err)
	}
	if seq != p.Poison || attempts != p.MaxAttempts || class != "crash" {
		t.Errorf("message %d is dead after %d attempts with class %s, the one that kills is %d", seq, attempts, class, p.Poison)
	}
	if deaths != 2+p.MaxAttempts {
		t.Errorf("the process died %d times: two to raise a suspicion, then once for each attempt", deaths)
	}
}

// Relays are killed twenty times, those that have taken over from a killed one first, so that there are suspects: no
// message pays for it with its life.
func TestRelayKilledTwentyTimes(t *testing.T) {
	plays(t)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	db := newDatabase(t)
	h := crashtest.New(t)
	p := plan{URL: db.url, Lease: time.Second, Slots: 20, Seed: seed, Messages: 1000, Keys: 50, Work: 100 * time.Millisecond}
	publisher := h.Start("publisher", crashtest.Options{Env: p.env()})
	fleet := startRelays(h, p, 3)
	suspected := false
	look := func(query string) int {
		suspected = suspected || db.count(t.Context(), "select count(*) from outbox.claim where lapses >= 2") > 0
		return db.count(t.Context(), query)
	}
	for range 20 {
		until(t, time.Minute, "messages are in flight", func() bool { return look(listed) > 0 })
		i := random.IntN(len(fleet))
		heir := look(`select coalesce((select r.pid from outbox.claim c join outbox.relay r on r.id = c.relay
			where c.lapses = 1 limit 1), 0)`)
		if at := slices.IndexFunc(fleet, func(f *crashtest.Process) bool { return f.PID() == heir }); at >= 0 {
			i = at
		}
		fleet[i].Kill()
		fleet[i] = startRelays(h, p, 1)[0]
	}
	publisher.Wait()
	until(t, 3*time.Minute, "everything was delivered", func() bool { return look(everything) == 0 })
	for _, r := range fleet {
		r.Terminate()
	}
	t.Logf("%+v", h.Check(history.Options{}))
	if n := db.count(t.Context(), dead); n != 0 {
		t.Errorf("%d messages are dead", n)
	}
	if !suspected {
		t.Error("no message was suspected: the test did not do what it was meant to")
	}
}
