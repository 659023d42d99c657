package outbox_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/outboxrelay/outbox"
	"github.com/outboxrelay/outbox/outboxtest"
)

// A scheduled message: no relay takes it before its time, by the database's clock.
func ExampleMessage_delay() {
	ctx := context.Background()
	clock := &turnedClock{}
	store := outboxtest.NewStore(outboxtest.WithClock(clock.now))
	if _, err := store.Publish(ctx, outbox.Message{Topic: "mail.reminder", Delay: 24 * time.Hour}); err != nil {
		log.Fatal(err)
	}
	var sink outboxtest.Recorder
	relay, err := outbox.NewRelay(store, outbox.To(&sink), nil)
	if err != nil {
		log.Fatal(err)
	}
	for _, wait := range []time.Duration{0, 24 * time.Hour} {
		clock.advance(wait)
		if _, err := relay.RunUntilIdle(ctx); err != nil {
			log.Fatal(err)
		}
		fmt.Println("after", wait, "delivered", len(sink.Deliveries()))
	}
	// Output:
	// after 0s delivered 0
	// after 24h0m0s delivered 1
}
