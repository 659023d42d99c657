package otelhook_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/metric"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/outboxrelay/outbox"
	"github.com/outboxrelay/outbox/otelhook"
	"github.com/outboxrelay/outbox/outboxtest"
)

// rig is an outbox in memory that is observed.
type rig struct {
	*outboxtest.Store
	hooks  outbox.Hooks
	spans  *tracetest.InMemoryExporter
	tracer trace.Tracer
	reader *metric.ManualReader
}

func newRig(t *testing.T, cfg otelhook.Config) *rig {
	t.Helper()
	r := &rig{Store: outboxtest.NewStore(), spans: tracetest.NewInMemoryExporter(), reader: metric.NewManualReader()}
	provider := sdktrace.NewTracerProvider(sdktrace.WithSyncer(r.spans))
	r.tracer = provider.Tracer("test")
	cfg.TracerProvider = provider
	cfg.MeterProvider = metric.NewMeterProvider(metric.WithReader(r.reader))
	observer, err := otelhook.New(&cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := observer.Close(); err != nil {
			t.Error(err)
		}
	})
	r.hooks = observer.Hooks()
	return r
}

func (r *rig) publish(t *testing.T, ctx context.Context, ms ...outbox.Message) []outbox.Receipt {
	t.Helper()
	receipts, err := r.hooks.ObservePublish(ctx, ms, func(ctx context.Context, ms []outbox.Message) ([]outbox.Receipt, error) {
		return r.Store.Publish(ctx, ms...)
	})
	if err != nil {
		t.Fatal(err)
	}
	return receipts
}

// deliver runs a relay for a while.
func (r *rig) deliver(t *testing.T, sink outbox.Sink, cfg outbox.Config) {
	t.Helper()
	cfg.Hooks, cfg.Logger = r.hooks, slog.New(slog.NewTextHandler(io.Discard, nil))
	relay, err := outbox.NewRelay(r.Store, outbox.To(sink), &cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if err := relay.Run(ctx); err != nil {
		t.Fatal(err)
	}
}

func (r *rig) named(name string) (found []tracetest.SpanStub) {
	for _, s := range r.spans.GetSpans() {
		if s.Name == name {
			found = append(found, s)
		}
	}
	return found
}

func has(t *testing.T, s tracetest.SpanStub, key string, want any) {
	t.Helper()
	i := slices.IndexFunc(s.Attributes, func(a attribute.KeyValue) bool { return string(a.Key) == key })
	if i < 0 || s.Attributes[i].Value.AsInterface() != want {
		t.Errorf("span %s has not %s = %v: %v", s.Name, key, want, s.Attributes)
	}
}

// TestTraceReachesHandler: the publisher's trace is the headers', the delivery's and the handler's; a failed attempt is
// a failed span, and the next one of its own.
func TestTraceReachesHandler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, otelhook.Config{PublishSpans: true})
		ctx, request := r.tracer.Start(t.Context(), "request")
		id := r.publish(t, ctx, outbox.Message{Topic: "orders.created", Key: "k"})[0].ID
		request.End()
		want := request.SpanContext().TraceID()
		attempts := 0
		r.deliver(t, outbox.SinkFunc(func(ctx context.Context, d *outbox.Delivery) error {
			if !strings.Contains(d.Headers["traceparent"], want.String()) {
				t.Errorf("headers %v", d.Headers)
			}
			if got := trace.SpanContextFromContext(ctx).TraceID(); got != want {
				t.Errorf("the handler's trace is %s, want %s", got, want)
			}
			if attempts++; attempts == 1 {
				return errors.New("no luck")
			}
			return nil
		}), outbox.Config{})
		published, deliveries := r.named("publish orders.created"), r.named("deliver orders.created")
		if len(published) != 1 || len(deliveries) != 2 {
			t.Fatalf("%d publish spans, %d of deliveries", len(published), len(deliveries))
		}
		p := published[0]
		if p.Parent.SpanID() != request.SpanContext().SpanID() || p.SpanKind != trace.SpanKindProducer {
			t.Errorf("publish: parent %s, kind %s", p.Parent.SpanID(), p.SpanKind)
		}
		has(t, p, "messaging.operation.type", "send")
		for i, d := range deliveries {
			if d.Parent.SpanID() != p.SpanContext.SpanID() || d.SpanContext.TraceID() != want || d.SpanKind != trace.SpanKindConsumer {
				t.Errorf("delivery: parent %s, trace %s, kind %s", d.Parent.SpanID(), d.SpanContext.TraceID(), d.SpanKind)
			}
			for key, value := range map[string]any{"messaging.system": "outbox", "messaging.destination.name": "orders.created",
				"messaging.operation.name": "deliver", "messaging.operation.type": "process", "messaging.message.id": id.String(),
				"outbox.message.attempt": int64(i + 1), "outbox.destination": "default"} {
				has(t, d, key, value)
			}
		}
		if s := deliveries[0].Status; s.Code != codes.Error || s.Description != "no luck" {
			t.Errorf("the failed attempt is %+v", s)
		}
		has(t, deliveries[0], "error.type", "error")
		has(t, deliveries[0], "outbox.outcome", "retried")
		if s := deliveries[1].Status; s.Code == codes.Error {
			t.Errorf("the successful attempt is %+v", s)
		}
	})
}

// batches is a sink that takes all with one call.
type batches func(ctx context.Context, ds []*outbox.Delivery)

func (f batches) Deliver(context.Context, *outbox.Delivery) error { return errors.New("not called") }

func (f batches) DeliverBatch(ctx context.Context, ds []*outbox.Delivery, report func(int, error)) error {
	f(ctx, ds)
	for i := range ds {
		report(i, nil)
	}
	return nil
}

// TestBatchLinks: the call's span is linked to where each message comes from, and each message's own span is in its
// publisher's trace and linked to the call.
func TestBatchLinks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, otelhook.Config{Systems: map[string]string{"default": "rabbitmq"}})
		var origins []trace.SpanContext
		for range 2 {
			ctx, request := r.tracer.Start(t.Context(), "request")
			r.publish(t, ctx, outbox.Message{Topic: "a"})
			request.End()
			origins = append(origins, request.SpanContext())
		}
		r.publish(t, t.Context(), outbox.Message{Topic: "a"}) // without a trace
		var inCall trace.SpanContext
		r.deliver(t, batches(func(ctx context.Context, ds []*outbox.Delivery) { inCall = trace.SpanContextFromContext(ctx) }), outbox.Config{})
		sends := r.named("send default")
		if len(sends) != 1 || len(sends[0].Links) != 2 || !sends[0].SpanContext.Equal(inCall) || sends[0].SpanKind != trace.SpanKindClient {
			t.Fatalf("%+v", sends)
		}
		has(t, sends[0], "messaging.system", "rabbitmq")
		has(t, sends[0], "messaging.batch.message_count", int64(3))
		for i, origin := range origins {
			link := sends[0].Links[i].SpanContext
			if link.SpanID() != origin.SpanID() || link.TraceID() != origin.TraceID() {
				t.Errorf("link %d leads to %s, want %s", i, link.SpanID(), origin.SpanID())
			}
		}
		for i, d := range r.named("deliver a") {
			if len(d.Links) != 1 || d.Links[0].SpanContext.SpanID() != inCall.SpanID() {
				t.Errorf("message %d has the links %v", i, d.Links)
			}
			if i < 2 && d.SpanContext.TraceID() != origins[i].TraceID() || i == 2 && d.Parent.IsValid() {
				t.Errorf("message %d is in trace %s below %s", i, d.SpanContext.TraceID(), d.Parent.SpanID())
			}
		}
	})
}

// TestContextWithoutProviders: without spans of its own the package passes the context on.
func TestContextWithoutProviders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, otelhook.Config{})
		observer, err := otelhook.New(nil)
		if err != nil {
			t.Fatal(err)
		}
		r.hooks = observer.Hooks()
		ctx, request := r.tracer.Start(t.Context(), "request")
		r.publish(t, ctx, outbox.Message{Topic: "a"})
		seen := 0
		r.deliver(t, outbox.SinkFunc(func(ctx context.Context, _ *outbox.Delivery) error {
			seen++
			if got := trace.SpanContextFromContext(ctx); got.SpanID() != request.SpanContext().SpanID() || !got.IsRemote() {
				t.Errorf("context %v", got)
			}
			return nil
		}), outbox.Config{})
		if seen != 1 || len(r.spans.GetSpans()) != 0 || observer.Close() != nil {
			t.Errorf("%d deliveries, spans %v", seen, r.spans.GetSpans())
		}
	})
}

// TestTraceHeadersNeverRefuse: a message keeps its own trace, and one without room for headers is published without.
func TestTraceHeadersNeverRefuse(t *testing.T) {
	r := newRig(t, otelhook.Config{})
	ctx, request := r.tracer.Start(t.Context(), "request")
	defer request.End()
	full, large := map[string]string{}, map[string]string{"a": strings.Repeat("x", outbox.MaxHeaderBytes-20)}
	for i := range outbox.MaxHeaders {
		full["h"+string(rune('A'+i/26))+string(rune('a'+i%26))] = "x"
	}
	own := map[string]string{"Traceparent": "mine"}
	r.publish(t, ctx, outbox.Message{Topic: "a", Headers: full}, outbox.Message{Topic: "a", Headers: large},
		outbox.Message{Topic: "a", Headers: own}, outbox.Message{Topic: "a", Headers: map[string]string{"x": "y"}})
	if len(own) != 1 || len(full) != outbox.MaxHeaders {
		t.Error("the caller's headers were changed")
	}
	sink := &outboxtest.Recorder{}
	relay, err := outbox.NewRelay(r.Store, outbox.To(sink), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := relay.RunUntilIdle(t.Context()); err != nil {
		t.Fatal(err)
	}
	with := 0
	for _, d := range sink.Deliveries() {
		if strings.Contains(d.Headers["traceparent"], request.SpanContext().SpanID().String()) {
			with++
		}
	}
	if with != 1 || len(sink.Deliveries()) != 4 {
		t.Errorf("%d of %d have the trace, want the last of 4", with, len(sink.Deliveries()))
	}
}
