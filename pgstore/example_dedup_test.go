package pgstore_test

import (
	"context"
	"fmt"
	"log"

	"github.com/jackc/pgx/v5"

	"github.com/outboxrelay/outbox"
	"github.com/outboxrelay/outbox/pgstore"
)

// A DedupKey makes publishing idempotent within a topic: a second message with it is not an error, and not a message.
func ExamplePublisher_Publish_dedupKey() {
	ctx := context.Background()
	pool, done := shop(ctx)
	defer done()
	publisher, err := pgstore.NewPublisher(nil)
	if err != nil {
		log.Fatal(err)
	}
	for range 2 {
		err := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
			receipts, err := publisher.Publish(ctx, tx, outbox.Message{Topic: "invoices.due", DedupKey: "2026-11"})
			if err != nil {
				return err
			}
			fmt.Println("duplicate:", receipts[0].Duplicate)
			return nil
		})
		if err != nil {
			log.Fatal(err)
		}
	}
	// Output:
	// duplicate: false
	// duplicate: true
}
