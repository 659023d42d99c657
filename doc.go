// Package outbox delivers messages that a service wrote into its own database, in the transaction that changed its
// data: at least once, whatever crashes in between.
//
// Writing to the database and then to somewhere else loses messages, or sends some for changes that were rolled back,
// whenever one of the two fails. With an outbox the message is a row of the same transaction, and a [Relay] delivers it
// afterwards. This package has the words and the relay; package pgstore keeps the outbox in PostgreSQL and publishes;
// package outboxtest has an outbox in memory for tests.
//
// # Publish
//
// A [Message] has a topic, a payload, and if it shall be in order with others, a key. Publish it in the transaction at
// hand, by pgx, database/sql, an ORM or an SQL function:
//
//	publisher, err := pgstore.NewPublisher(nil) // once; it needs no connection
//	…
//	err = pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
//		if _, err := tx.Exec(ctx, "insert into orders (id) values ($1)", id); err != nil {
//			return err
//		}
//		_, err := publisher.Publish(ctx, tx, outbox.Message{Topic: "orders.created", Key: id, Payload: payload})
//		return err
//	})
//
// A [Topic] ties a topic to a Go type, whose values are encoded for publishing and decoded for handlers.
//
// # Relay
//
// A relay runs in the same process or another one, in one replica or in all. It claims messages, calls the [Sink] of
// their route, and settles them by what the sink returned. The sink of in-process handlers is a [Mux]:
//
//	mux := outbox.NewMux()
//	outbox.On(mux, OrderCreated, func(ctx context.Context, d *outbox.Delivery, o Order) error { … })
//	mux.Handle("audit.>", func(ctx context.Context, d *outbox.Delivery) error { … })
//
//	store, err := pgstore.Open(ctx, url, nil)
//	…
//	relay, err := outbox.NewRelay(store, outbox.To(mux), nil)
//	…
//	err = relay.Run(ctx) // until ctx ends; then it stops gracefully
//
// # Results
//
//	returned                outcome                                              attempt spent
//	nil                     delivered                                            –
//	any error               retried after a backoff; dead at the last attempt    yes
//	RetryAfter(d, err)      the same, after d                                    yes
//	Permanent(err)          dead                                                 yes
//	Drop(reason)            accepted, nothing done, counted                      –
//	Unavailable(err)        given back; the handler or destination rests         no
//
// A panic is a failed attempt with its stack. With the defaults there are ten attempts, after waits of 1, 2, 4 … 256
// seconds of which a random part is left out. While a message is retried, younger ones of its key wait: about four
// minutes on average, and at most eight and a half, if it fails to the end.
//
// A handler's context ends for one of these causes, which context.Cause tells:
//
//	ErrHandlerTimeout    the time limit is over                         attempt spent
//	ErrLeaseLost         the relay lost its lease                       not spent, the message may be with another relay
//	ErrShutdown          the relay stops and its drain limit is over    not spent, the message is given back
//
// # Guarantees
//
//	atomic               a message exists if and only if the publishing transaction committed
//	at least once        a committed message is delivered until it is accepted, expires or is dead
//	no double delivery   two live relays never hold the same message; a late result is refused
//	order per key        messages of a key are delivered one after another, in publish order
//	bounded              a relay never holds more than its slots and bytes; no transaction is held meanwhile
//	nothing dropped      every end of a message is known and counted
//	attempts             only a rejection of this message spends one
//
// A process that is stopped for longer than its lease, or a database that crashes, may cause a second delivery, never a
// loss: handlers recognise a message by its ID. Each promise with the tests that prove it is in docs/guarantees.md; how
// messages move in PostgreSQL is in docs/protocol.md; what can never change is in docs/contract.md.
//
// # Test
//
// outboxtest.Deliver hands one message to a handler, outboxtest.RequirePublished looks into a transaction, and
// [Relay.RunUntilIdle] delivers all that is due from an outboxtest.Store, without a database.
package outbox
