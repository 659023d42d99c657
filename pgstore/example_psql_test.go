package pgstore_test

import (
	"context"
	"fmt"
	"log"

	"github.com/outboxrelay/outbox"
	"github.com/outboxrelay/outbox/outboxtest"
	"github.com/outboxrelay/outbox/pgstore"
)

// Publish from any language, or from psql, by an SQL function in the transaction at hand. It checks and keeps what
// the Go publisher does.
func Example_sqlFunction() {
	ctx := context.Background()
	pool, done := shop(ctx)
	defer done()
	_, err := pool.Exec(ctx, `
		begin;
		insert into orders (id) values ('o-17');
		select outbox.publish_json('orders.created', '{"id": "o-17"}', key => 'o-17');
		select outbox.publish('orders.reminder', 'pay'::bytea, delay => interval '1 day');
		commit;
	`)
	if err != nil {
		log.Fatal(err)
	}

	store, err := pgstore.New(pool, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()
	var sink outboxtest.Recorder
	relay, err := outbox.NewRelay(store, outbox.To(&sink), nil)
	if err != nil {
		log.Fatal(err)
	}
	if _, err := relay.RunUntilIdle(ctx); err != nil {
		log.Fatal(err)
	}
	for _, d := range sink.Deliveries() {
		fmt.Println(d.Topic, d.Key, d.ContentType, string(d.Payload))
	}
	// Output: orders.created o-17 application/json {"id": "o-17"}
}
