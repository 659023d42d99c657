package outbox_test

import (
	"context"
	"fmt"

	"github.com/outboxrelay/outbox"
	"github.com/outboxrelay/outbox/outboxtest"
)

// A request begins a chain of causes. What is published because of it tells so, and what a handler publishes tells its
// own message too.
func ExampleWithCausation() {
	store, mux := outboxtest.NewStore(), outbox.NewMux()
	publish := func(ctx context.Context, topic string) error {
		tx := store.Begin()
		defer tx.Rollback()
		if _, err := tx.Publish(ctx, outbox.Message{Topic: topic}); err != nil {
			return err
		}
		return tx.Commit()
	}
	mux.Handle("orders.created", func(ctx context.Context, d *outbox.Delivery) error {
		fmt.Println(d.Topic, "because of", d.Causation())
		return publish(ctx, "orders.billed") // the handler's context continues the chain
	})
	mux.Handle("orders.billed", func(ctx context.Context, d *outbox.Delivery) error {
		fmt.Println(d.Topic, "because of", d.Causation()[0], "and", len(d.Causation())-1, "message")
		return nil
	})

	ctx := outbox.WithCausation(context.Background(), "request-7")
	if err := publish(ctx, "orders.created"); err != nil {
		panic(err)
	}
	relay, err := outbox.NewRelay(store, outbox.To(mux), nil)
	if err != nil {
		panic(err)
	}
	if _, err := relay.RunUntilIdle(context.Background()); err != nil {
		panic(err)
	}
	// Output:
	// orders.created because of [request-7]
	// orders.billed because of request-7 and 1 message
}
