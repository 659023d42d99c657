package outbox_test

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/outboxrelay/outbox"
	"github.com/outboxrelay/outbox/outboxtest"
)

// TestSettleFails: outcomes survive a store that fails, and are settled once it works.
func TestSettleFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, sink := &faultyStore{Store: outboxtest.NewStore()}, &outboxtest.Recorder{}
		began := time.Now()
		store.settle = func(ctx context.Context, os []outbox.Outcome) ([]outbox.Settled, error) {
			if time.Since(began) < 20*time.Second {
				return nil, errDown
			}
			return store.Store.Settle(ctx, os)
		}
		publish(t, store.Store, messages(200, "a", "")...)
		r := start(t, store, outbox.To(sink), outbox.Config{})
		time.Sleep(19 * time.Second)
		if n := len(sink.Deliveries()); n > 101 {
			t.Errorf("%d delivered with 50 slots while nothing could be settled", n)
		}
		time.Sleep(11 * time.Second)
		r.mustStop()
		if c := store.Counts(); c.Delivered != 200 || len(sink.Deliveries()) != 200 {
			t.Errorf("%+v, %d deliveries", c, len(sink.Deliveries()))
		}
	})
}

// TestSettleIsolatesCulprit: an outcome that the store cannot take does not keep the others from being settled.
func TestSettleIsolatesCulprit(t *testing.T) {
	for name, hopeless := range map[string]bool{"plain text helps": false, "nothing helps": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store, sink := &faultyStore{Store: outboxtest.NewStore()}, &outboxtest.Recorder{}
				store.settle = func(ctx context.Context, os []outbox.Outcome) ([]outbox.Settled, error) {
					for _, o := range os {
						if o.Seq == 7 && (hopeless || o.Text == "unstorable") {
							return nil, errors.New("invalid byte sequence")
						}
					}
					return store.Store.Settle(ctx, os)
				}
				sink.Answer(func(_ context.Context, d *outbox.Delivery) error {
					if d.Seq == 7 {
						return outbox.Permanent(errors.New("unstorable"))
					}
					return nil
				})
				publish(t, store.Store, messages(40, "a", "")...)
				r := start(t, store, outbox.To(sink), outbox.Config{})
				time.Sleep(2 * time.Second)
				publish(t, store.Store, messages(40, "a", "")...)
				time.Sleep(time.Second)
				c, dead := store.Counts(), store.Dead()
				r.mustStop()
				if c.Delivered != 79 {
					t.Errorf("%+v", c)
				}
				if !hopeless && (len(dead) != 1 || dead[0].Text == "unstorable" || dead[0].Class != "permanent") {
					t.Errorf("dead %+v", dead)
				}
			})
		})
	}
}

// TestLostOutcomesTriedOnce: what could not be settled while the lease lasted is tried once more under the old
// id, before the next one is registered, and then left to whoever holds the message next.
func TestLostOutcomesTriedOnce(t *testing.T) {
	for _, n := range []int{2, 5} { // so few are taken for culprits, so many for a store that fails
		synctest.Test(t, func(t *testing.T) { testLostOutcomes(t, n) })
	}
}

func testLostOutcomes(t *testing.T, n int) {
	store, sink := &faultyStore{Store: outboxtest.NewStore()}, &outboxtest.Recorder{}
	var down atomic.Bool
	down.Store(true)
	var first outbox.ID
	late := map[int64]int{}
	began := time.Now()
	store.beat = func(ctx context.Context, info outbox.RelayInfo, known []outbox.Token) (outbox.Orders, error) {
		switch {
		case first.IsZero():
			first = info.ID
		case info.Beat == 0 && len(late) != n:
			t.Errorf("registered again after %d late settles", len(late))
		case info.Beat > 0 && down.Load():
			return outbox.Orders{}, errDown
		}
		return store.Store.Beat(ctx, info, known)
	}
	store.settle = func(ctx context.Context, os []outbox.Outcome) ([]outbox.Settled, error) {
		if os[0].Claim.Relay != first {
			return store.Store.Settle(ctx, os)
		}
		if time.Since(began) >= 27*time.Second {
			down.Store(false)
			for _, o := range os {
				late[o.Seq]++
			}
		}
		return nil, errDown
	}
	publish(t, store.Store, messages(n, "a", "k")...)
	r := start(t, store, outbox.To(sink), outbox.Config{})
	time.Sleep(time.Minute)
	r.mustStop()
	for seq, tries := range late {
		if tries != 1 {
			t.Errorf("message %d was settled %d times after the lease", seq, tries)
		}
	}
	if c := store.Counts(); len(late) != n || c.Delivered != n {
		t.Errorf("late settles %v, %+v", late, c)
	}
}

// TestFollowersOfFailedHead: messages behind a failed head are unlisted, those behind one that was given back are
// given back with it.
func TestFollowersOfFailedHead(t *testing.T) {
	for name, tc := range map[string]struct {
		err  error
		want []outbox.OutcomeKind
	}{
		"failed":      {errDown, []outbox.OutcomeKind{outbox.Retried, outbox.Unlisted, outbox.Unlisted}},
		"unavailable": {outbox.Unavailable(errDown), []outbox.OutcomeKind{outbox.GivenBack, outbox.GivenBack, outbox.GivenBack}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store, sink := &faultyStore{Store: outboxtest.NewStore()}, &outboxtest.Recorder{}
				var kinds []outbox.OutcomeKind
				store.settle = func(ctx context.Context, os []outbox.Outcome) ([]outbox.Settled, error) {
					for _, o := range os {
						kinds = append(kinds, o.Kind)
					}
					return store.Store.Settle(ctx, os)
				}
				sink.Answer(func(context.Context, *outbox.Delivery) error { return tc.err })
				publish(t, store.Store, messages(3, "a", "k")...)
				r := start(t, store, outbox.To(sink), outbox.Config{Retry: outbox.RetryPolicy{DisableJitter: true}})
				time.Sleep(100 * time.Millisecond)
				r.mustStop()
				if !slices.Equal(kinds, tc.want) {
					t.Errorf("outcomes %v, want %v", kinds, tc.want)
				}
			})
		})
	}
}

// TestKeyHandedOn: when a message is settled the next one of its key goes on without a poll between.
func TestKeyHandedOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, sink := outboxtest.NewStore(), &outboxtest.Recorder{}
		const n = 100
		publish(t, store, messages(n, "a", "k")...)
		routes := outbox.To(sink)
		routes[0].BatchSize = 1
		began := time.Now()
		r := start(t, store, routes, outbox.Config{})
		if err := sink.Wait(t.Context(), n); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took > n*time.Millisecond {
			t.Errorf("took %v", took)
		}
		r.mustStop()
	})
}
