package outboxtest_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log"
	"testing"

	"github.com/outboxrelay/outbox"
	"github.com/outboxrelay/outbox/outboxtest"
)

// newMux is the code under test.
func newMux() *outbox.Mux {
	mux := outbox.NewMux()
	mux.Handle("mail.welcome", func(ctx context.Context, d *outbox.Delivery) error {
		if len(d.Payload) == 0 {
			return outbox.Permanent(errors.New("nobody to write to"))
		}
		return nil
	})
	return mux
}

// Test a handler: one message, as a relay would deliver it.
func ExampleDeliver() {
	_ = func(t *testing.T) {
		if err := outboxtest.Deliver(t, newMux(), outbox.Message{Topic: "mail.welcome", Payload: []byte("alice")}); err != nil {
			t.Errorf("the handler failed: %v", err)
		}
		err := outboxtest.Deliver(t, newMux(), outbox.Message{Topic: "mail.welcome"})
		if !outbox.IsPermanent(err) {
			t.Errorf("the handler returned %v, want a permanent error", err)
		}
	}
}

// Test publishing and handling together: whatever was published is delivered when RunUntilIdle returns.
func ExampleNewStore() {
	ctx := context.Background()
	store := outboxtest.NewStore()

	tx := store.Begin()
	if _, err := tx.Publish(ctx, outbox.Message{Topic: "mail.welcome"}); err != nil {
		log.Fatal(err)
	}
	if err := tx.Commit(); err != nil {
		log.Fatal(err)
	}
	relay, err := outbox.NewRelay(store, outbox.To(newMux()), nil)
	if err != nil {
		log.Fatal(err)
	}
	if _, err := relay.RunUntilIdle(ctx); err != nil {
		log.Fatal(err)
	}
	for _, letter := range store.Dead() {
		fmt.Println(letter.Message.Topic, "is dead:", letter.Text)
	}
	// Output: mail.welcome is dead: nobody to write to
}

// A sink that fails as planned, for tests of what comes after.
func ExampleRecorder() {
	ctx := context.Background()
	store := outboxtest.NewStore()
	if _, err := store.Publish(ctx, outbox.Message{Topic: "a", Key: "k"}, outbox.Message{Topic: "b", Key: "k"}); err != nil {
		log.Fatal(err)
	}
	var sink outboxtest.Recorder
	sink.Plan(outbox.Permanent(errors.New("broken")))
	relay, err := outbox.NewRelay(store, outbox.To(&sink), nil)
	if err != nil {
		log.Fatal(err)
	}
	counts, err := relay.RunUntilIdle(ctx)
	if err != nil {
		log.Fatal(err)
	}
	for _, d := range sink.Deliveries() {
		fmt.Println("delivered", d.Topic)
	}
	fmt.Println("accepted", counts.Delivered, "dead", counts.Dead)
	// Output:
	// delivered a
	// delivered b
	// accepted 1 dead 1
}

// Test code that publishes in a transaction: look into it before the commit, or roll it back afterwards. With pgx it
// is RequirePublished.
func ExampleRequirePublishedSQL() {
	_ = func(t *testing.T, db *sql.DB, placeOrder func(ctx context.Context, tx *sql.Tx, id string) error) {
		tx, err := db.BeginTx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer tx.Rollback()
		if err := placeOrder(t.Context(), tx, "o-17"); err != nil {
			t.Fatal(err)
		}
		outboxtest.RequirePublishedSQL(t, tx,
			outbox.Message{Topic: "orders.created", Key: "o-17"},
			outbox.Message{Topic: "mail.welcome"})
	}
}
