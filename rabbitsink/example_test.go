package rabbitsink_test

import (
	"context"
	"log"
	"os/signal"
	"syscall"
	"time"

	"github.com/outboxrelay/outbox"
	"github.com/outboxrelay/outbox/pgstore"
	"github.com/outboxrelay/outbox/rabbitsink"
)

// A relay that delivers the topics of billing to an exchange, which is declared if it is missing. What is not consumed
// within a day is dropped by RabbitMQ.
func Example() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	store, err := pgstore.Open(ctx, "postgres://localhost/shop", nil)
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()

	sink, err := rabbitsink.Open("amqp://shop:secret@localhost:5672/shop", &rabbitsink.Config{
		Exchange: "billing", RoutingKey: "shop.{topic}",
	})
	if err != nil {
		log.Fatal(err)
	}
	defer sink.Close()

	relay, err := outbox.NewRelay(store, []outbox.Route{
		{Name: "billing", Topics: []string{"billing.>"}, Sink: sink, BrokerTTL: 24 * time.Hour},
	}, nil)
	if err != nil {
		log.Fatal(err)
	}
	if err := relay.Run(ctx); err != nil {
		log.Fatal(err)
	}
}
