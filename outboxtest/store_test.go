package outboxtest

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/outboxrelay/outbox"
)

var everything = outbox.TopicSet{{Pattern: ">", In: true}}

func publish(t *testing.T, s *Store, ms ...outbox.Message) {
	t.Helper()
	if _, err := s.Publish(t.Context(), ms...); err != nil {
		t.Fatal(err)
	}
}

// register makes a relay with one lane for everything.
func register(t *testing.T, s *Store) outbox.ID {
	t.Helper()
	id := outbox.NewID()
	info := outbox.RelayInfo{
		ID: id, Lease: time.Minute,
		Lanes: []outbox.LaneInfo{{Destination: "d", Topics: everything}},
	}
	if _, err := s.Beat(t.Context(), info, nil); err != nil {
		t.Fatal(err)
	}
	return id
}

func claimAll(t *testing.T, s *Store, relay outbox.ID) []*outbox.Delivery {
	t.Helper()
	batch, err := s.Claim(t.Context(), outbox.ClaimQuery{
		Relay: relay, Destination: "d", Token: outbox.NewID(), Limit: 100, Bytes: 1 << 20,
	})
	if err != nil {
		t.Fatal(err)
	}
	var ds []*outbox.Delivery
	for _, c := range batch.Claims {
		ds = append(ds, c.Deliveries...)
	}
	return ds
}

func TestDelayPassesInABubbleWithoutSleeping(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewStore()
		relay := register(t, s)
		publish(t, s, outbox.Message{Topic: "a", Delay: 30 * time.Second})
		if ds := claimAll(t, s, relay); len(ds) != 0 {
			t.Fatalf("claimed %d messages before they are due", len(ds))
		}
		time.Sleep(30 * time.Second)
		if ds := claimAll(t, s, relay); len(ds) != 1 {
			t.Fatalf("claimed %d messages, want the due one", len(ds))
		}
	})
}

func TestWaitTellsEveryPeerOfACommit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := NewStore()
		b := a.Peer()
		start := time.Now()
		done := make(chan error)
		for _, s := range []*Store{a, b} {
			go func() {
				_, err := s.Wait(t.Context(), 0, start.Add(time.Hour))
				done <- err
			}()
		}
		synctest.Wait()
		publish(t, a, outbox.Message{Topic: "a"})
		for range 2 {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
		if took := time.Since(start); took != 0 {
			t.Errorf("woke after %v", took)
		}
	})
}

func TestWaitKeepsANotificationThatCameBetweenClaimAndWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewStore()
		start := time.Now()
		publish(t, s, outbox.Message{Topic: "a"})
		var seen uint64
		for _, want := range []time.Duration{0, time.Hour} {
			var err error
			if seen, err = s.Wait(t.Context(), seen, start.Add(time.Hour)); err != nil {
				t.Fatal(err)
			}
			if took := time.Since(start); took != want {
				t.Errorf("waited %v, want %v", took, want)
			}
		}
	})
}

func TestWaitEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := NewStore().Wait(ctx, 0, time.Now().Add(time.Hour)); !errors.Is(err, context.Canceled) {
		t.Errorf("Wait returned %v", err)
	}
}

func TestPublishWaitsForAnOpenTransactionWithTheSameDedupKey(t *testing.T) {
	m := outbox.Message{Topic: "a", DedupKey: "k"}
	for _, commit := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			s := NewStore()
			first := s.Begin()
			if _, err := first.Publish(t.Context(), m); err != nil {
				t.Fatal(err)
			}
			duplicate := make(chan bool)
			go func() {
				receipts, err := s.Publish(t.Context(), m)
				duplicate <- err == nil && receipts[0].Duplicate
			}()
			synctest.Wait()
			select {
			case <-duplicate:
				t.Fatal("did not wait")
			default:
			}
			end := first.Rollback
			if commit {
				end = first.Commit
			}
			if err := end(); err != nil {
				t.Fatal(err)
			}
			if got := <-duplicate; got != commit {
				t.Errorf("first committed: %v, second duplicate: %v", commit, got)
			}
		})
	}
}

func TestDuplicateIDSpoilsTheTransaction(t *testing.T) {
	s := NewStore()
	m := outbox.Message{Topic: "a", ID: outbox.NewID()}
	tx := s.Begin()
	if _, err := tx.Publish(t.Context(), m, m); !errors.Is(err, outbox.ErrDuplicateID) {
		t.Fatalf("Publish returned %v", err)
	}
	if err := tx.Commit(); !errors.Is(err, outbox.ErrDuplicateID) {
		t.Errorf("Commit returned %v", err)
	}
	if c := s.Counts(); c.Ready != 0 {
		t.Errorf("%d messages were committed", c.Ready)
	}
	publish(t, s, m)
}

func TestEndedTransactionRefusesEverything(t *testing.T) {
	tx := NewStore().Begin()
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	if err := tx.Rollback(); err == nil {
		t.Error("Rollback after Commit succeeded")
	}
	if _, err := tx.Publish(t.Context(), outbox.Message{Topic: "a"}); err == nil {
		t.Error("Publish after Commit succeeded")
	}
}

func TestDedupWindowOutlastsTheMessage(t *testing.T) {
	now := time.Now()
	s := NewStore(WithClock(func() time.Time { return now }), WithDedupWindow(time.Hour))
	relay := register(t, s)
	m := outbox.Message{Topic: "a", DedupKey: "k"}
	publish(t, s, m)
	for _, d := range claimAll(t, s, relay) {
		o := outbox.Outcome{Claim: d.Claim, Seq: d.Seq, Kind: outbox.Delivered}
		if _, err := s.Settle(t.Context(), []outbox.Outcome{o}); err != nil {
			t.Fatal(err)
		}
	}
	for _, step := range []struct {
		at        time.Duration
		duplicate bool
	}{{time.Hour - 1, true}, {1, false}} {
		now = now.Add(step.at)
		receipts, err := s.Publish(t.Context(), m)
		if err != nil || receipts[0].Duplicate != step.duplicate {
			t.Errorf("duplicate %v (%v), want %v", receipts, err, step.duplicate)
		}
	}
}

func TestCallerCannotChangeAMessageThatIsKept(t *testing.T) {
	s := NewStore()
	relay := register(t, s)
	payload := []byte("kept")
	publish(t, s, outbox.Message{Topic: "a", Payload: payload})
	payload[0] = 'X'
	ds := claimAll(t, s, relay)
	if len(ds) != 1 || string(ds[0].Payload) != "kept" {
		t.Errorf("claimed %v", ds)
	}
}
