package pgstore_test

import (
	"context"
	"fmt"
	"log"

	"github.com/jackc/pgx/v5"

	"github.com/outboxrelay/outbox"
	"github.com/outboxrelay/outbox/pgstore"
)

// With LockKeys, a transaction that publishes a key waits for another that has published it and is still open.
func ExamplePublishConfig_lockKeys() {
	ctx := context.Background()
	pool, done := shop(ctx)
	defer done()
	publisher, err := pgstore.NewPublisher(&pgstore.PublishConfig{LockKeys: true})
	if err != nil {
		log.Fatal(err)
	}
	published, committed := make(chan struct{}), make(chan struct{})
	go func() {
		<-published
		// Without LockKeys this one would be committed, and could be delivered, before the first.
		send(ctx, pool, publisher, "second", func() {})
		close(committed)
	}()
	send(ctx, pool, publisher, "first", func() { close(published) })
	<-committed
	rows, err := pool.Query(ctx, "select convert_from(payload, 'UTF8') from outbox.message order by seq")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(pgx.CollectRows(rows, pgx.RowTo[string]))
	// Output: [first second] <nil>
}

// send publishes a message of key 7 in a transaction and tells before it commits.
func send(ctx context.Context, pool beginner, publisher *pgstore.Publisher, payload string, beforeCommit func()) {
	err := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		defer beforeCommit()
		_, err := publisher.Publish(ctx, tx, outbox.Message{Topic: "account.changed", Key: "7", Payload: []byte(payload)})
		return err
	})
	if err != nil {
		log.Fatal(err)
	}
}

type beginner interface {
	Begin(ctx context.Context) (pgx.Tx, error)
}
