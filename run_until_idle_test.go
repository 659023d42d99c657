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

func TestRunUntilIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := outboxtest.NewStore()
		publish(t, store, messages(120, "a", "k")...)
		publish(t, store, message("b", "", "1"), message("c", "", "1"), message("d", "", "1"))
		relay, err := outbox.NewRelay(store, sinkOf(func(ctx context.Context, d *outbox.Delivery) error {
			switch d.Topic {
			case "b":
				return errors.New("boom")
			case "c":
				return outbox.Permanent(errors.New("boom"))
			case "d":
				return outbox.Drop("no")
			}
			return nil
		}), &outbox.Config{Logger: quiet(), Retry: outbox.RetryPolicy{Base: time.Minute, DisableJitter: true}})
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		counts, err := relay.RunUntilIdle(t.Context())
		if want := (outbox.Counts{Delivered: 120, Retried: 1, Dead: 1, Dropped: 1}); err != nil || counts != want {
			t.Errorf("%+v, %v", counts, err)
		}
		if time.Since(began) > 100*time.Millisecond {
			t.Errorf("took %v", time.Since(began))
		}
		time.Sleep(time.Minute)
		if counts, err = relay.RunUntilIdle(t.Context()); err != nil || counts != (outbox.Counts{Retried: 1}) {
			t.Errorf("again: %+v, %v", counts, err)
		}
	})
}

// TestRunUntilIdleAcrossDestinations: what a delivery publishes for a destination that was idle already is due too.
func TestRunUntilIdleAcrossDestinations(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, second := outboxtest.NewStore(), &outboxtest.Recorder{}
		publish(t, store, message("a", "", "1"))
		first := outbox.SinkFunc(func(ctx context.Context, d *outbox.Delivery) error {
			time.Sleep(time.Second)
			_, err := store.Publish(ctx, message("b", "", "2"))
			return err
		})
		relay, err := outbox.NewRelay(store, []outbox.Route{
			{Name: "second", Topics: []string{"b"}, Sink: second}, {Name: "first", Topics: []string{"a"}, Sink: first},
		}, &outbox.Config{Logger: quiet()})
		if err != nil {
			t.Fatal(err)
		}
		if counts, err := relay.RunUntilIdle(t.Context()); err != nil || counts.Delivered != 2 || len(second.Deliveries()) != 1 {
			t.Errorf("%+v, %v", counts, err)
		}
	})
}

func TestRunUntilIdleStopped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := outboxtest.NewStore()
		publish(t, store, message("a", "", "1"))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		relay, _ := outbox.NewRelay(store, sinkOf(func(ctx context.Context, d *outbox.Delivery) error {
			<-ctx.Done()
			return ctx.Err()
		}), &outbox.Config{Logger: quiet()})
		counts, err := relay.RunUntilIdle(ctx)
		if !errors.Is(err, context.DeadlineExceeded) || counts.GivenBack != 1 {
			t.Errorf("%+v, %v", counts, err)
		}
	})
}

// TestNothingToDo: without handlers no claim is asked for; a disabled relay touches nothing.
func TestNothingToDo(t *testing.T) {
	for name, disabled := range map[string]bool{"without handlers": false, "disabled": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := &faultyStore{Store: outboxtest.NewStore()}
				store.claim = func(context.Context, outbox.ClaimQuery) (outbox.Batch, error) {
					t.Error("a claim was asked for")
					return outbox.Batch{}, nil
				}
				publish(t, store.Store, message("a", "", "1"))
				routes := outbox.To(outbox.NewMux())
				if disabled {
					routes = outbox.To(&outboxtest.Recorder{})
				}
				r := start(t, store, routes, outbox.Config{DisableRelay: disabled})
				<-r.Ready()
				time.Sleep(5 * time.Minute)
				r.mustStop()
			})
		})
	}
}
