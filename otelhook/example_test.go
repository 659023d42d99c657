package otelhook_test

import (
	"context"
	"fmt"
	"log"
	"log/slog"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/outboxrelay/outbox"
	"github.com/outboxrelay/outbox/otelhook"
	"github.com/outboxrelay/outbox/outboxtest"
)

// A handler continues the trace that the message was published in. Programs take the providers that they have set up,
// such as otel.GetTracerProvider and otel.GetMeterProvider, and give the hooks to pgstore.Config as well.
func Example() {
	provider := sdktrace.NewTracerProvider()
	observer, err := otelhook.New(&otelhook.Config{TracerProvider: provider})
	if err != nil {
		log.Fatal(err)
	}
	hooks := observer.Hooks()

	store := outboxtest.NewStore() // in place of a pgstore.Store with these hooks
	ctx, request := provider.Tracer("shop").Start(context.Background(), "POST /orders")
	_, err = hooks.ObservePublish(ctx, []outbox.Message{{Topic: "orders.created"}}, func(ctx context.Context, ms []outbox.Message) ([]outbox.Receipt, error) {
		return store.Publish(ctx, ms...)
	})
	if err != nil {
		log.Fatal(err)
	}
	request.End()

	mux := outbox.NewMux()
	mux.Handle("orders.created", func(ctx context.Context, _ *outbox.Delivery) error {
		fmt.Println("the same trace:", trace.SpanContextFromContext(ctx).TraceID() == request.SpanContext().TraceID())
		return nil
	})
	relay, err := outbox.NewRelay(store, outbox.To(mux), &outbox.Config{Hooks: hooks, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		log.Fatal(err)
	}
	if _, err := relay.RunUntilIdle(context.Background()); err != nil {
		log.Fatal(err)
	}
	// Output: the same trace: true
}
