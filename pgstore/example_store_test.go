package pgstore_test

import (
	"context"
	"fmt"
	"log"

	"github.com/jackc/pgx/v5"

	"github.com/outboxrelay/outbox"
	"github.com/outboxrelay/outbox/pgstore"
)

// A Store that begins and commits the transaction itself wakes relays after the commit, at no cost to it.
func ExampleStore_InTx() {
	ctx := context.Background()
	pool, done := shop(ctx)
	defer done()
	store, err := pgstore.New(pool, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()
	err = store.InTx(ctx, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "insert into orders (id) values ('7')"); err != nil {
			return err
		}
		receipts, err := store.Publish(ctx, tx, outbox.Message{Topic: "orders.created", Key: "7", Payload: []byte(`{"id":"7"}`)})
		fmt.Println(len(receipts), "published")
		return err
	})
	fmt.Println(err)
	// Output:
	// 1 published
	// <nil>
}
