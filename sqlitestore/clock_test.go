package sqlitestore

import (
	"database/sql"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/outboxrelay/outbox"
)

// step puts the outbox's clock forward or, by less than nothing, back.
func step(t *testing.T, db *sql.DB, d time.Duration) {
	t.Helper()
	if err := advance(t.Context(), db, d); err != nil {
		t.Fatal(err)
	}
}

// TestLeaseAheadOfTheClockLapses: the clock is put back by an hour. A relay that has died lapses when it has not moved for as
// long as its lease; one that lives does not, although the other looks at it as often.
func TestLeaseAheadOfTheClockLapses(t *testing.T) {
	path := migratedFile(t)
	db := openFile(t, path)
	store := func() *Store { return newStore(t, openFile(t, path), nil) } // each a process
	const lease = 600 * time.Millisecond
	publish(t, store(), outbox.Message{Topic: "a", Payload: []byte("1")})
	dead, alive, watcher := newTestRelay(t, store(), lease), newTestRelay(t, store(), lease), newTestRelay(t, store(), time.Minute)
	if ds := dead.claim(t, 1); len(ds) != 1 {
		t.Fatalf("claimed %d", len(ds))
	}
	step(t, db, -time.Hour)
	begin := time.Now()
	watcher.beat(t)
	if ds := watcher.claim(t, 1); len(ds) != 0 || count(t, db, "select count(*) from outbox_relay") != 3 {
		t.Fatalf("at the first look %q are claimed", payloads(ds))
	}
	until(t, "the dead relay has lapsed", func() bool {
		alive.beat(t)
		watcher.beat(t)
		return count(t, db, "select count(*) from outbox_relay where id = ?", dead.info.ID.String()) == 0
	})
	if took := time.Since(begin); took < lease {
		t.Errorf("it lapsed after %v of a lease of %v", took, lease)
	}
	if n := count(t, db, "select count(*) from outbox_relay"); n != 2 {
		t.Errorf("%d relays are left, want the watcher and the one that beats", n)
	}
	if c := watcher.batch(t, 10).Claims; len(c) != 1 || c[0].Lapses != 1 {
		t.Errorf("taken over: %+v", c)
	}
}

// TestSlowHeartbeatIsNoDeath: a relay whose next heartbeat comes late after the clock was put back is not taken for dead.
func TestSlowHeartbeatIsNoDeath(t *testing.T) {
	db := openFile(t, migratedFile(t))
	s := newStore(t, db, nil)
	slow, watcher := newTestRelay(t, s, time.Hour), newTestRelay(t, s, time.Minute)
	step(t, db, -3*time.Hour)
	for range 5 {
		watcher.beat(t)
	}
	slow.beat(t)
	watcher.beat(t)
	if n := count(t, db, "select count(*) from outbox_relay where lease_until <= (select now from outbox_clock) + lease"); n != 2 {
		t.Errorf("%d relays with a lease that can be believed, want 2", n)
	}
	if len(s.sightings) != 0 {
		t.Errorf("still watched: %+v", s.sightings)
	}
}

// TestClockForward: leases lapse when the clock is put forward. Who beats first goes on with what it holds; what another has
// taken over meanwhile is fenced, and no attempt is spent.
func TestClockForward(t *testing.T) {
	db := openFile(t, migratedFile(t))
	s := newStore(t, db, nil)
	publish(t, s, outbox.Message{Topic: "a", Key: "k", Payload: []byte("1")})
	r := newTestRelay(t, s, lease)
	ds := r.claim(t, 1)
	step(t, db, time.Hour)
	r.beat(t)
	other := newTestRelay(t, s, lease)
	if got := other.claim(t, 1); len(got) != 0 {
		t.Fatalf("claimed %q of a relay that beats", payloads(got))
	}
	step(t, db, time.Hour)
	other.beat(t)
	c := other.batch(t, 1).Claims
	if len(c) != 1 || c[0].Lapses != 1 || c[0].Deliveries[0].Attempt != 1 {
		t.Fatalf("taken over: %+v", c)
	}
	answers, err := s.Settle(t.Context(), []outbox.Outcome{{Claim: ds[0].Claim, Seq: ds[0].Seq, Kind: outbox.Delivered}})
	if err != nil || answers[0] != outbox.SettledFenced {
		t.Errorf("the late settlement: %v, %v", answers, err)
	}
	r.info.Beat++
	if _, err := s.Beat(t.Context(), r.info, r.known); !errors.Is(err, outbox.ErrLeaseLost) {
		t.Errorf("the late heartbeat: %v", err)
	}
}

// TestDueAfterClockSteps: scheduled messages and retries come at their times by the clock as it is, and none is passed over
// because a lane had been further.
func TestDueAfterClockSteps(t *testing.T) {
	db := openFile(t, migratedFile(t))
	s := newStore(t, db, nil)
	r := newTestRelay(t, s, 24*time.Hour)
	takes := func(want ...string) {
		t.Helper()
		ds := r.claim(t, len(want)+1)
		if got := payloads(ds); !slices.Equal(got, want) {
			t.Fatalf("claimed %q, want %q", got, want)
		}
		if len(ds) > 0 {
			r.settle(t, outbox.Delivered, ds...)
		}
	}
	later := func(payload string, d time.Duration) {
		t.Helper()
		publish(t, s, outbox.Message{Topic: "a", Payload: []byte(payload), Delay: d})
	}
	later("first", time.Second)
	step(t, db, 2*time.Second)
	takes("first")

	later("in an hour", time.Hour)
	step(t, db, -time.Hour)
	if due := r.batch(t, 1).NextDue; due <= time.Hour || due > 2*time.Hour {
		t.Errorf("what was due in an hour is due in %v, the clock was put back by one", due)
	}
	later("after the step", time.Second)
	step(t, db, 2*time.Second)
	takes("after the step")
	step(t, db, 2*time.Hour)
	takes("in an hour")

	// A step back that no claim sees: the time of the next one is later again.
	later("passed", time.Minute)
	step(t, db, 2*time.Minute)
	takes("passed")
	step(t, db, -2*time.Minute)
	later("behind the lane", time.Millisecond)
	step(t, db, 3*time.Minute)
	takes() // it is behind the place that the lane has come to
	r.store.lane(r.info.ID, "d").began = time.Now().Add(-2 * duePass)
	takes("behind the lane")
}

// TestRetriesAfterAStepBack: retries wait for their backoff after it, and what was redriven is due; seen by a heartbeat, or by a relay
// that starts afterwards. A scheduled message keeps its time.
func TestRetriesAfterAStepBack(t *testing.T) {
	for _, starts := range []bool{false, true} {
		db := openFile(t, migratedFile(t))
		s := newStore(t, db, nil)
		r := newTestRelay(t, s, 24*time.Hour)
		publish(t, s, outbox.Message{Topic: "a", Payload: []byte("retried")}, outbox.Message{Topic: "a", Payload: []byte("redriven")})
		ds := r.claim(t, 2)
		publish(t, s, outbox.Message{Topic: "a", Payload: []byte("scheduled"), Delay: time.Minute})
		answers, err := s.Settle(t.Context(), []outbox.Outcome{{Claim: ds[0].Claim, Seq: ds[0].Seq, Kind: outbox.Retried, Attempts: 1, Delay: time.Minute},
			{Claim: ds[1].Claim, Seq: ds[1].Seq, Kind: outbox.Died, Attempts: 1}})
		if err != nil || answers[0] != outbox.SettledNow || answers[1] != outbox.SettledNow {
			t.Fatal(answers, err)
		}
		if _, err := s.Redrive(t.Context(), outbox.Change{Filter: outbox.Filter{All: true}}); err != nil {
			t.Fatal(err)
		}
		step(t, db, -time.Hour)
		if got := r.claim(t, 3); len(got) != 0 {
			t.Errorf("claimed %q before anybody has seen the step", payloads(got))
		}
		if starts {
			r = newTestRelay(t, newStore(t, db, nil), 24*time.Hour)
		} else {
			r.beat(t)
		}
		if got := payloads(r.claim(t, 3)); !slices.Equal(got, []string{"redriven"}) {
			t.Errorf("claimed %q, want what was redriven", got)
		}
		step(t, db, time.Minute+time.Second)
		if got := payloads(r.claim(t, 3)); !slices.Equal(got, []string{"retried"}) {
			t.Errorf("claimed %q after the backoff, want what is retried", got)
		}
		step(t, db, time.Hour)
		if got := payloads(r.claim(t, 3)); !slices.Equal(got, []string{"scheduled"}) {
			t.Errorf("claimed %q an hour later, want what was scheduled", got)
		}
	}
}

// TestRetryOfTheExpired: a message whose life ends during its delivery is found again after a retry, wherever the lane is.
func TestRetryOfTheExpired(t *testing.T) {
	db := openFile(t, migratedFile(t))
	s := newStore(t, db, nil)
	r := newTestRelay(t, s, 24*time.Hour)
	publish(t, s, outbox.Message{Topic: "a", Payload: []byte("short"), TTL: time.Minute},
		outbox.Message{Topic: "a", Payload: []byte("scheduled"), Delay: 2 * time.Minute})
	short := r.claim(t, 1)
	step(t, db, 3*time.Minute)
	if ds := r.claim(t, 1); len(ds) != 1 || string(ds[0].Payload) != "scheduled" {
		t.Fatalf("claimed %q", payloads(ds))
	}
	r.settle(t, outbox.Retried, short...)
	if ds := r.claim(t, 1); len(ds) != 1 || string(ds[0].Payload) != "short" {
		t.Errorf("claimed %q, want what has expired, to be settled so", payloads(ds))
	}
}
