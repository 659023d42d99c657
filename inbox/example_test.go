package inbox_test

import (
	"context"
	"fmt"
	"log"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outboxrelay/outbox/inbox"
)

// charge acts on a message once, however often it comes. id is its header Outbox-Id.
func charge(ctx context.Context, pool *pgxpool.Pool, box *inbox.Inbox, id string) error {
	return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		first, err := box.Once(ctx, tx, "billing", id)
		if err != nil || !first {
			return err // nil: a duplicate, which is accepted
		}
		_, err = tx.Exec(ctx, "update account set balance = balance - 10")
		return err
	})
}

func Example() {
	ctx := context.Background()
	url, drop := postgres.DatabaseForExample("empty", func(context.Context, string) error { return nil })
	defer drop()
	pool, err := pgxpool.New(ctx, url)
	if err != nil {
		log.Fatal(err)
	}
	defer pool.Close()
	box, err := inbox.New(nil)
	if err != nil {
		log.Fatal(err)
	}
	if err := box.Migrate(ctx, pool); err != nil {
		log.Fatal(err)
	}
	if _, err := pool.Exec(ctx, "create table account as select 100 as balance"); err != nil {
		log.Fatal(err)
	}

	for range 3 { // the broker delivers the message three times
		if err := charge(ctx, pool, box, "019545c8-4c35-7000-8000-000000000001"); err != nil {
			log.Fatal(err)
		}
	}
	var balance int
	if err := pool.QueryRow(ctx, "select balance from account").Scan(&balance); err != nil {
		log.Fatal(err)
	}
	fmt.Println("balance", balance)
	// Output:
	// balance 90
}
