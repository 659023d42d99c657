package outbox_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/outboxrelay/outbox"
	"github.com/outboxrelay/outbox/outboxtest"
)

// TestOwnTransactionHoldsItsKey: the handler has returned and left its transaction open. The next message of the key waits
// until the relay knows how that ended, and for the next attempt if it was rolled back.
func TestOwnTransactionHoldsItsKey(t *testing.T) {
	for _, commits := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			store := outboxtest.NewStore()
			if _, err := store.Publish(t.Context(), outbox.Message{Topic: "a", Key: "k", Payload: []byte("1")},
				outbox.Message{Topic: "a", Key: "k", Payload: []byte("2")}); err != nil {
				t.Fatal(err)
			}
			var calls []string
			left := make(chan *outboxtest.Tx, 1)
			relay, err := outbox.NewRelay(store, outbox.To(outbox.SinkFunc(func(ctx context.Context, d *outbox.Delivery) error {
				calls = append(calls, string(d.Payload))
				if len(calls) > 1 {
					return nil
				}
				tx := store.Begin()
				left <- tx
				return tx.Settle(ctx, d)
			})), nil)
			if err != nil {
				t.Fatal(err)
			}
			ctx, stop := context.WithCancel(t.Context())
			ended := make(chan error)
			go func() { ended <- relay.Run(ctx) }()
			tx := <-left
			time.Sleep(3 * time.Minute) // of the bubble's time: it looks again and again
			synctest.Wait()
			if len(calls) != 1 {
				t.Errorf("delivered %q before anybody knew how the first ended", calls)
			}
			want := []string{"1", "2"}
			end := tx.Commit
			if !commits {
				want, end = []string{"1", "1", "2"}, tx.Rollback
			}
			if err := end(); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Minute)
			stop()
			if err := <-ended; err != nil {
				t.Error(err)
			}
			if !slices.Equal(calls, want) {
				t.Errorf("commits %v: delivered %q, want %q", commits, calls, want)
			}
			if c := store.Counts(); c.Delivered != 2 || c.Ready+c.Waiting+c.Dead != 0 {
				t.Errorf("%+v", c)
			}
		})
	}
}

// TestOwnTransactionOpenAtTheStop: nobody can tell how the attempt ended, so the message is given back.
func TestOwnTransactionOpenAtTheStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := outboxtest.NewStore()
		if _, err := store.Publish(t.Context(), outbox.Message{Topic: "a"}); err != nil {
			t.Fatal(err)
		}
		left := make(chan *outboxtest.Tx, 1)
		relay, err := outbox.NewRelay(store, outbox.To(outbox.SinkFunc(func(ctx context.Context, d *outbox.Delivery) error {
			tx := store.Begin()
			left <- tx
			return tx.Settle(ctx, d)
		})), nil)
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- relay.Run(ctx) }()
		tx := <-left
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if c := store.Counts(); c.Ready != 1 || c.Delivered != 0 {
			t.Errorf("%+v", c)
		}
		if err := tx.Rollback(); err != nil {
			t.Error(err)
		}
	})
}
