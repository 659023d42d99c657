package natssink_test

import (
	"context"
	"fmt"
	"log"
	"log/slog"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/outboxrelay/outbox"
	"github.com/outboxrelay/outbox/internal/devservices/natsdev"
	"github.com/outboxrelay/outbox/natssink"
	"github.com/outboxrelay/outbox/outboxtest"
)

// A relay that delivers the topics of orders to a stream, which is created. The store is one in memory here; a program
// has that of package pgstore.
func Example() {
	server, err := natsdev.Start(natsdev.Config{}) // yours runs already
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	ctx, quiet := context.Background(), slog.New(slog.DiscardHandler)

	sink, err := natssink.Open(server.URL(), &natssink.Config{
		Stream: "ORDERS", Subject: "shop.{topic}", Topics: []string{"orders.>"}, Create: true, Logger: quiet,
	}, nats.Name("shop"))
	if err != nil {
		log.Fatal(err)
	}
	defer sink.Close()

	store := outboxtest.NewStore()
	relay, err := outbox.NewRelay(store, []outbox.Route{
		{Name: "events", Topics: []string{"orders.>"}, Sink: sink},
	}, &outbox.Config{Logger: quiet})
	if err != nil {
		log.Fatal(err)
	}
	if _, err := store.Publish(ctx, outbox.Message{Topic: "orders.created", Key: "order-7", Payload: []byte(`{"total": 12}`)}); err != nil {
		log.Fatal(err)
	}
	if _, err := relay.RunUntilIdle(ctx); err != nil {
		log.Fatal(err)
	}

	read(ctx, server.URL())
	// Output:
	// shop.orders.created order-7 {"total": 12}
}

func read(ctx context.Context, url string) {
	conn, err := nats.Connect(url)
	if err != nil {
		log.Fatal(err)
	}
	defer conn.Close()
	js, err := jetstream.New(conn)
	if err != nil {
		log.Fatal(err)
	}
	stream, err := js.Stream(ctx, "ORDERS")
	if err != nil {
		log.Fatal(err)
	}
	m, err := stream.GetMsg(ctx, 1)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(m.Subject, m.Header.Get("Outbox-Key"), string(m.Data))
}
