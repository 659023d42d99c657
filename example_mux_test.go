package outbox_test

import (
	"context"
	"fmt"
	"log"

	"github.com/outboxrelay/outbox"
	"github.com/outboxrelay/outbox/outboxtest"
)

type purchase struct {
	ID    string `json:"id"`
	Cents int    `json:"cents"`
}

// purchased ties the topic to its type, for publishers and handlers alike.
var purchased = outbox.NewTopic[purchase]("purchases.made")

// Typed topics and handlers. A handler of an exact topic wins over those of patterns.
func ExampleMux() {
	ctx := context.Background()
	store := outboxtest.NewStore() // in memory; a service has a pgstore.Store

	mux := outbox.NewMux()
	outbox.On(mux, purchased, func(ctx context.Context, d *outbox.Delivery, o purchase) error {
		fmt.Printf("purchase %s costs %d cents\n", o.ID, o.Cents)
		return nil
	})
	mux.Handle("audit.>", func(ctx context.Context, d *outbox.Delivery) error {
		fmt.Printf("%s: %s\n", d.Topic, d.Payload)
		return nil
	})

	m, err := purchased.Message("o-17", purchase{ID: "o-17", Cents: 999})
	if err != nil {
		log.Fatal(err)
	}
	if _, err := store.Publish(ctx, m, outbox.Message{Topic: "audit.login.failed", Payload: []byte("alice")}); err != nil {
		log.Fatal(err)
	}
	relay, err := outbox.NewRelay(store, outbox.To(mux), nil)
	if err != nil {
		log.Fatal(err)
	}
	if _, err := relay.RunUntilIdle(ctx); err != nil {
		log.Fatal(err)
	}
	// Unordered output:
	// purchase o-17 costs 999 cents
	// audit.login.failed: alice
}
