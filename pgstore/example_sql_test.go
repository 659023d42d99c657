package pgstore_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log"

	_ "github.com/jackc/pgx/v5/stdlib" // registers the driver "pgx"; lib/pq works as well

	"github.com/outboxrelay/outbox"
	"github.com/outboxrelay/outbox/pgstore"
)

// Publish in a transaction of database/sql. The Publisher needs no connection of its own.
func ExamplePublisher_PublishSQL() {
	ctx := context.Background()
	url, drop := shopURL(ctx)
	defer drop()
	db, err := sql.Open("pgx", url)
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	publisher, err := pgstore.NewPublisher(nil)
	if err != nil {
		log.Fatal(err)
	}

	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer tx.Rollback()
	if _, err := tx.ExecContext(ctx, "insert into orders (id) values ($1)", "o-17"); err != nil {
		log.Fatal(err)
	}
	receipts, err := publisher.PublishSQL(ctx, tx,
		outbox.Message{Topic: "orders.created", Key: "o-17"},
		outbox.Message{Topic: "mail.welcome"})
	if err != nil {
		log.Fatal(err)
	}
	if err := tx.Commit(); err != nil {
		log.Fatal(err)
	}
	fmt.Println(len(receipts), "published")
	// Output: 2 published
}

// PublishQuerier is for ORMs that hand out something else than a *sql.Tx. It asks the database whether there is a
// transaction.
func ExamplePublisher_PublishQuerier() {
	ctx := context.Background()
	url, drop := shopURL(ctx)
	defer drop()
	db, err := sql.Open("pgx", url)
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	publisher, err := pgstore.NewPublisher(nil)
	if err != nil {
		log.Fatal(err)
	}

	_, err = publisher.PublishQuerier(ctx, db, outbox.Message{Topic: "orders.created"})
	fmt.Println("refused outside a transaction:", errors.Is(err, outbox.ErrNoTransaction))

	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer tx.Rollback()
	_, err = publisher.PublishQuerier(ctx, tx, outbox.Message{Topic: "orders.created"})
	fmt.Println("inside:", err)
	// Output:
	// refused outside a transaction: true
	// inside: <nil>
}
