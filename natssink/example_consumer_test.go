package natssink_test

import (
	"context"
	"fmt"
	"log"
	"log/slog"
	"sync"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/outboxrelay/outbox"
	"github.com/outboxrelay/outbox/internal/devservices/natsdev"
	"github.com/outboxrelay/outbox/natssink"
)

// consume hands messages of a stream to a function until ctx ends. The function gets the id, which is the same when
// a message comes again.
func consume(ctx context.Context, js jetstream.JetStream, handle func(id string, m jetstream.Msg) error) error {
	consumer, err := js.CreateOrUpdateConsumer(ctx, "ORDERS", jetstream.ConsumerConfig{Durable: "billing", FilterSubject: "orders.>"})
	if err != nil {
		return err
	}
	running, err := consumer.Consume(func(m jetstream.Msg) {
		if err := handle(m.Headers().Get("Outbox-Id"), m); err != nil {
			_ = m.Nak() // comes again
			return
		}
		_ = m.Ack() // comes again, too, if this is lost
	})
	if err != nil {
		return err
	}
	<-ctx.Done()
	running.Drain()
	<-running.Closed()
	return nil
}

// A consumer recognises by its id what it has had: here one message that an operator has sent again, which has another
// Nats-Msg-Id.
func Example_consumer() {
	server, err := natsdev.Start(natsdev.Config{}) // yours runs already
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	ctx, stop := context.WithCancel(context.Background())
	deliverTwice(ctx, server.URL())

	conn, err := nats.Connect(server.URL())
	if err != nil {
		log.Fatal(err)
	}
	defer conn.Close()
	js, err := jetstream.New(conn)
	if err != nil {
		log.Fatal(err)
	}
	var mu sync.Mutex
	seen := map[string]bool{} // a table in the consumer's database, written in the transaction of its work
	err = consume(ctx, js, func(id string, m jetstream.Msg) error {
		mu.Lock()
		defer mu.Unlock()
		if seen[id] {
			fmt.Println("had it already")
			stop()
			return nil
		}
		seen[id] = true
		fmt.Println(m.Subject(), m.Headers().Get("Outbox-Key"), string(m.Data()))
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
	// Output:
	// orders.created order-7 {"total": 12}
	// had it already
}

func deliverTwice(ctx context.Context, url string) {
	sink, err := natssink.Open(url, &natssink.Config{
		Stream: "ORDERS", Topics: []string{"orders.>"}, Create: true, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		log.Fatal(err)
	}
	defer sink.Close()
	if err := sink.Preflight(ctx); err != nil {
		log.Fatal(err)
	}
	d := outbox.Delivery{Message: outbox.Message{
		ID: outbox.NewID(), Topic: "orders.created", Key: "order-7", Payload: []byte(`{"total": 12}`),
	}, Seq: 1}
	for d.Generation = range 2 {
		if err := sink.Deliver(ctx, &d); err != nil {
			log.Fatal(err)
		}
	}
}
