package pgstore_test

import (
	"context"
	"fmt"
	"log"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outboxrelay/outbox"
	"github.com/outboxrelay/outbox/pgstore"
)

// placeOrder changes the application's own table and publishes, in one transaction: both happen or neither.
func placeOrder(ctx context.Context, pool *pgxpool.Pool, publisher *pgstore.Publisher, id string) error {
	return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "insert into orders (id) values ($1)", id); err != nil {
			return err
		}
		_, err := publisher.Publish(ctx, tx,
			outbox.Message{Topic: "orders.created", Key: id, Payload: []byte(`{"id":"` + id + `"}`)})
		return err
	})
}

// Publish in a transaction of pgx.
func ExamplePublisher_Publish() {
	ctx := context.Background()
	pool, done := shop(ctx)
	defer done()

	publisher, err := pgstore.NewPublisher(nil)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(placeOrder(ctx, pool, publisher, "o-17"))
	// The order exists already: the transaction is rolled back, and nothing is published.
	fmt.Println(placeOrder(ctx, pool, publisher, "o-17") != nil)

	var orders, messages int
	err = pool.QueryRow(ctx, "select (select count(*) from orders), (select count(*) from outbox.message)").Scan(&orders, &messages)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(orders, "order,", messages, "message")
	// Output:
	// <nil>
	// true
	// 1 order, 1 message
}
