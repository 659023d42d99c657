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

// Run until told to stop: the handler that runs at that moment may finish, and its message is settled. In a service
// the context comes from signal.NotifyContext.
func ExampleRelay_Run() {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	store := outboxtest.NewStore()
	if _, err := store.Publish(ctx, outbox.Message{Topic: "orders.created", Payload: []byte("o-17")}); err != nil {
		log.Fatal(err)
	}

	mux := outbox.NewMux()
	mux.Handle("orders.created", func(ctx context.Context, d *outbox.Delivery) error {
		stop() // now, in the middle of the work
		fmt.Printf("handled %s, context: %v\n", d.Payload, ctx.Err())
		return nil
	})
	relay, err := outbox.NewRelay(store, outbox.To(mux), &outbox.Config{DrainTimeout: 10 * time.Second})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("stopped:", relay.Run(ctx))
	fmt.Println("delivered:", store.Counts().Delivered)
	// Output:
	// handled o-17, context: <nil>
	// stopped: <nil>
	// delivered: 1
}

// RunUntilIdle delivers all that is due and returns: for tests, cron jobs and serverless functions.
func ExampleRelay_RunUntilIdle() {
	ctx := context.Background()
	store := outboxtest.NewStore()
	_, err := store.Publish(ctx,
		outbox.Message{Topic: "mail.welcome"},
		outbox.Message{Topic: "mail.welcome"},
		outbox.Message{Topic: "mail.reminder", Delay: 24 * time.Hour}) // not due
	if err != nil {
		log.Fatal(err)
	}

	send := outbox.SinkFunc(func(ctx context.Context, d *outbox.Delivery) error { return nil })
	relay, err := outbox.NewRelay(store, outbox.To(send), nil)
	if err != nil {
		log.Fatal(err)
	}
	counts, err := relay.RunUntilIdle(ctx)
	fmt.Println(counts.Delivered, "delivered,", store.Counts().Waiting, "waiting,", err)
	// Output: 2 delivered, 1 waiting, <nil>
}

// All mistakes in routes, handlers and configuration come in one error.
func ExampleNewRelay_mistakes() {
	mux := outbox.NewMux()
	mux.Handle("orders..created", func(context.Context, *outbox.Delivery) error { return nil })
	_, err := outbox.NewRelay(outboxtest.NewStore(), outbox.To(mux), &outbox.Config{Lease: time.Millisecond})
	var refused *outbox.FieldError
	fmt.Println(errors.As(err, &refused))
	fmt.Println(err)
	// Output:
	// true
	// relay configuration: Mux.Handle "orders..created": must be tokens of A-Z a-z 0-9 _ - joined by dots; * stands for one token, > at the end for one or more
	// Config.Lease "1ms": 1s to 10m0s, or zero for the default
}
