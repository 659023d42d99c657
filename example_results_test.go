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

// What a handler returns decides what becomes of the message.
func ExamplePermanent() {
	ctx := context.Background()
	store := outboxtest.NewStore()

	mux := outbox.NewMux()
	mux.Handle("plain", func(context.Context, *outbox.Delivery) error {
		return errors.New("deadlock") // a failed attempt: tried again after a backoff
	})
	mux.Handle("later", func(context.Context, *outbox.Delivery) error {
		return outbox.RetryAfter(time.Hour, errors.New("rate limit")) // the same, with a delay of its own
	})
	mux.Handle("final", func(context.Context, *outbox.Delivery) error {
		return outbox.Permanent(errors.New("no such account")) // dead now
	})
	mux.Handle("useless", func(context.Context, *outbox.Delivery) error {
		return outbox.Drop("unsubscribed") // accepted, nothing done, counted
	})
	mux.Handle("down", func(context.Context, *outbox.Delivery) error {
		return outbox.Unavailable(errors.New("connection refused")) // no attempt spent, the handler rests
	})

	for _, topic := range []string{"plain", "later", "final", "useless", "down"} {
		if _, err := store.Publish(ctx, outbox.Message{Topic: topic}); err != nil {
			log.Fatal(err)
		}
	}
	relay, err := outbox.NewRelay(store, outbox.To(mux), &outbox.Config{
		Retry: outbox.RetryPolicy{DisableJitter: true}, // waits exactly, 1 s at first
	})
	if err != nil {
		log.Fatal(err)
	}
	counts, err := relay.RunUntilIdle(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("retried", counts.Retried, "dead", counts.Dead, "dropped", counts.Dropped, "given back", counts.GivenBack)
	for _, letter := range store.Dead() {
		fmt.Printf("dead: %s, %s: %s\n", letter.Message.Topic, letter.Class, letter.Text)
	}
	// Output:
	// retried 2 dead 1 dropped 1 given back 1
	// dead: final, permanent: no such account
}
