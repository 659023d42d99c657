package rabbitsink_test

import (
	"context"
	"log"

	amqp "github.com/rabbitmq/amqp091-go"
)

// A consumer that knows duplicates by the message's id, and acknowledges what it has worked on.
func Example_consumer() {
	conn, err := amqp.Dial("amqp://localhost:5672/shop")
	if err != nil {
		log.Fatal(err)
	}
	defer conn.Close()
	ch, err := conn.Channel()
	if err != nil {
		log.Fatal(err)
	}
	if err := consume(context.Background(), ch, insertOnce); err != nil {
		log.Fatal(err)
	}
}

func consume(ctx context.Context, ch *amqp.Channel, handle func(id string, m amqp.Delivery) error) error {
	if _, err := ch.QueueDeclare("billing", true, false, false, false, amqp.Table{"x-queue-type": "quorum"}); err != nil {
		return err
	}
	if err := ch.QueueBind("billing", "billing.#", "outbox", false, nil); err != nil {
		return err
	}
	messages, err := ch.ConsumeWithContext(ctx, "billing", "", false, false, false, false, nil)
	if err != nil {
		return err
	}
	for m := range messages {
		if err := handle(m.MessageId, m); err != nil {
			_ = m.Nack(false, true) // comes again
			continue
		}
		_ = m.Ack(false) // comes again, too, if this is lost
	}
	return ctx.Err()
}

// insertOnce writes the id in the transaction of its work, and does nothing if it is there.
func insertOnce(id string, m amqp.Delivery) error {
	log.Println(id, m.RoutingKey)
	return nil
}
