package pgstore_test

import (
	"context"
	"fmt"
	"log"
	"os/signal"
	"syscall"

	"github.com/outboxrelay/outbox"
	"github.com/outboxrelay/outbox/pgstore"
)

// runRelay delivers until ctx ends: then it stops claiming, lets running handlers finish and returns nil.
func runRelay(ctx context.Context, url string, handle outbox.HandlerFunc) error {
	store, err := pgstore.Open(ctx, url, nil)
	if err != nil {
		return err
	}
	defer store.Close()
	mux := outbox.NewMux()
	mux.Handle("orders.>", handle)
	relay, err := outbox.NewRelay(store, outbox.To(mux), nil)
	if err != nil {
		return err
	}
	return relay.Run(ctx)
}

// Run a relay beside the application. It creates or updates the outbox's tables when it starts, and stops when the
// process is told to.
func ExampleStore() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	url, drop := shopURL(ctx)
	defer drop()
	pool, done := connect(ctx, url)
	defer done()
	publisher, err := pgstore.NewPublisher(nil)
	if err != nil {
		log.Fatal(err)
	}
	if err := placeOrder(ctx, pool, publisher, "o-17"); err != nil {
		log.Fatal(err)
	}

	err = runRelay(ctx, url, func(ctx context.Context, d *outbox.Delivery) error {
		fmt.Printf("%s %s, attempt %d\n", d.Topic, d.Payload, d.Attempt)
		stop() // stands for the signal that ends the process
		return nil
	})
	fmt.Println("stopped:", err)
	// Output:
	// orders.created {"id":"o-17"}, attempt 1
	// stopped: <nil>
}
