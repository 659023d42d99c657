package otelhook_test

import (
	"context"
	"testing"
	"time"

	"go.opentelemetry.io/otel/sdk/metric"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/outboxrelay/outbox"
	"github.com/outboxrelay/outbox/otelhook"
)

// BenchmarkDelivery is what observing adds to one message from its claim to its settlement.
func BenchmarkDelivery(b *testing.B) {
	meters := metric.NewMeterProvider(metric.WithReader(metric.NewManualReader()))
	tracers := sdktrace.NewTracerProvider()
	for _, c := range []struct {
		name string
		cfg  *otelhook.Config // nil: no hooks
	}{{"none", nil}, {"no providers", &otelhook.Config{}}, {"metrics", &otelhook.Config{MeterProvider: meters}},
		{"metrics and traces", &otelhook.Config{MeterProvider: meters, TracerProvider: tracers}}} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			hooks := outbox.Hooks{}
			if c.cfg != nil {
				observer, err := otelhook.New(c.cfg)
				if err != nil {
					b.Fatal(err)
				}
				hooks = observer.Hooks()
			}
			d := &outbox.Delivery{Message: outbox.Message{Topic: "orders.created", Headers: map[string]string{
				"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}}}
			for b.Loop() {
				observe(context.Background(), &hooks, d)
			}
		})
	}
}

// observe calls the hooks as a relay does.
func observe(ctx context.Context, h *outbox.Hooks, d *outbox.Delivery) {
	if h.DeliverStart != nil {
		ctx = h.DeliverStart(ctx, d)
	}
	if h.DeliverEnd != nil {
		h.DeliverEnd(ctx, d, outbox.Result{Destination: "default", Kind: outbox.Delivered, Took: time.Millisecond, Age: time.Second})
	}
	if h.Event != nil {
		h.Event(ctx, outbox.Event{Kind: outbox.EventSettled, Destination: "default", Topic: d.Topic, Outcome: outbox.Outcome{Kind: outbox.Delivered}})
	}
}
