package pgstore_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outboxrelay/outbox"
	"github.com/outboxrelay/outbox/pgstore"
)

// A handler that writes to the outbox's own database settles its message there: its effect and the end of the message
// commit together. The first attempt here does its work and fails before the commit.
func ExampleStore_SettleTx() {
	ctx := context.Background()
	pool, done := shop(ctx)
	defer done()
	store, err := pgstore.New(pool, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()
	mux := outbox.NewMux()
	mux.Handle("orders.wanted", func(ctx context.Context, d *outbox.Delivery) error {
		err := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, "insert into orders (id) values ($1)", string(d.Payload)); err != nil {
				return err
			}
			if err := store.SettleTx(ctx, tx, d); err != nil {
				return err
			}
			if d.Attempt == 1 {
				return errors.New("the network is gone")
			}
			return nil
		})
		fmt.Printf("attempt %d: %v\n", d.Attempt, err)
		return err
	})
	relay, err := outbox.NewRelay(store, outbox.To(mux), &outbox.Config{
		Retry: outbox.RetryPolicy{Base: time.Millisecond, Max: time.Millisecond},
	})
	if err != nil {
		log.Fatal(err)
	}

	err = store.InTx(ctx, func(tx pgx.Tx) error {
		_, err := store.Publish(ctx, tx, outbox.Message{Topic: "orders.wanted", Payload: []byte("o-17")})
		return err
	})
	if err != nil {
		log.Fatal(err)
	}
	for delivered := int64(0); delivered == 0; {
		counts, err := relay.RunUntilIdle(ctx)
		if err != nil {
			log.Fatal(err)
		}
		delivered = counts.Delivered
	}
	var orders, messages int
	err = pool.QueryRow(ctx, "select (select count(*) from orders), (select count(*) from outbox.message)").Scan(&orders, &messages)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(orders, "order,", messages, "messages")
	// Output:
	// attempt 1: the network is gone
	// attempt 2: <nil>
	// 1 order, 0 messages
}
