package outbox_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/outboxrelay/outbox"
	"github.com/outboxrelay/outbox/outboxtest"
)

// Messages of a key are delivered one after another, in publish order; while the oldest is retried, the younger
// ones wait. Other keys go on.
func ExampleMessage_key() {
	ctx := context.Background()
	clock := &turnedClock{}
	store := outboxtest.NewStore(outboxtest.WithClock(clock.now))
	mux := outbox.NewMux()
	mux.Handle("account.*", func(ctx context.Context, d *outbox.Delivery) error {
		if d.Topic == "account.opened" && d.Key == "alice" && d.Attempt == 1 {
			return errors.New("try again")
		}
		fmt.Println(d.Key, d.Topic, "attempt", d.Attempt)
		return nil
	})
	_, err := store.Publish(ctx,
		outbox.Message{Topic: "account.opened", Key: "alice"},
		outbox.Message{Topic: "account.closed", Key: "alice"},
		outbox.Message{Topic: "account.opened", Key: "bob"})
	if err != nil {
		log.Fatal(err)
	}
	relay, err := outbox.NewRelay(store, outbox.To(mux), &outbox.Config{
		Retry: outbox.RetryPolicy{DisableJitter: true}, // waits exactly, 1 s at first
	})
	if err != nil {
		log.Fatal(err)
	}
	for range 2 {
		if _, err := relay.RunUntilIdle(ctx); err != nil {
			log.Fatal(err)
		}
		clock.advance(time.Second)
	}
	// Output:
	// bob account.opened attempt 1
	// alice account.opened attempt 2
	// alice account.closed attempt 1
}
