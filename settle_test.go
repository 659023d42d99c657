package outbox_test

import (
	"context"
	"errors"
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
				r.mustStop()
				c, dead := store.Counts(), store.Dead()
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
