package otelhook_test

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.opentelemetry.io/otel/propagation"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/outboxrelay/outbox"
	"github.com/outboxrelay/outbox/internal/devservices/natsdev"
	"github.com/outboxrelay/outbox/natssink"
	"github.com/outboxrelay/outbox/otelhook"
	"github.com/outboxrelay/outbox/pgstore"
)

// shop is an application that orders are posted to: what a request does is in one transaction.
type shop struct {
	store  *pgstore.Store
	tracer trace.Tracer
}

func (s *shop) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	ctx := propagation.TraceContext{}.Extract(r.Context(), propagation.HeaderCarrier(r.Header))
	ctx, span := s.tracer.Start(ctx, "POST /orders", trace.WithSpanKind(trace.SpanKindServer))
	defer span.End()
	err := s.store.InTx(ctx, func(tx pgx.Tx) error {
		_, err := s.store.Publish(ctx, tx, outbox.Message{Topic: "orders.created", Key: "o-17", Payload: []byte(`{"id":"o-17"}`)})
		return err
	})
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.WriteHeader(http.StatusCreated)
}

// consume takes one message of the stream as a consumer that traces does.
func consume(t *testing.T, js jetstream.JetStream, tracer trace.Tracer) {
	t.Helper()
	consumer, err := js.CreateOrUpdateConsumer(t.Context(), "ORDERS", jetstream.ConsumerConfig{Durable: "billing"})
	if err != nil {
		t.Fatal(err)
	}
	m, err := consumer.Next(jetstream.FetchMaxWait(30 * time.Second))
	if err != nil {
		t.Fatal(err)
	}
	ctx := propagation.TraceContext{}.Extract(context.Background(), propagation.MapCarrier{
		"traceparent": m.Headers().Get("traceparent"), "tracestate": m.Headers().Get("tracestate")})
	_, span := tracer.Start(ctx, "process orders.created", trace.WithSpanKind(trace.SpanKindConsumer))
	span.End()
	if err := m.Ack(); err != nil {
		t.Error(err)
	}
}

func stream(t *testing.T) (js jetstream.JetStream, sink *natssink.Sink) {
	t.Helper()
	server, err := natsdev.Start(natsdev.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { server.Close() })
	conn, err := nats.Connect(server.URL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	if js, err = jetstream.New(conn); err != nil {
		t.Fatal(err)
	}
	if _, err = js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "ORDERS", Subjects: []string{"orders.>"}}); err != nil {
		t.Fatal(err)
	}
	sink, err = natssink.Open(server.URL(), &natssink.Config{Stream: "ORDERS", Topics: []string{"orders.>"}, RetryHorizon: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(sink.Close)
	return js, sink
}

// TestOneTraceFromRequestToConsumer: a request, the publishing in its transaction, the delivery by a relay and the work of a
// consumer of the stream are one trace, which the caller of the request began.
func TestOneTraceFromRequestToConsumer(t *testing.T) {
	spans := tracetest.NewInMemoryExporter()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans))
	observer, err := otelhook.New(&otelhook.Config{TracerProvider: provider, PublishSpans: true, Systems: map[string]string{"default": "nats"}})
	if err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.DiscardHandler)
	store, err := pgstore.Open(t.Context(), postgres.Database(t), &pgstore.Config{Hooks: observer.Hooks(), Logger: log})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	if err := store.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	js, sink := stream(t)
	relay, err := outbox.NewRelay(store, outbox.To(sink), &outbox.Config{Hooks: observer.Hooks(), Logger: log})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- relay.Run(ctx) }()

	server := httptest.NewServer(&shop{store, provider.Tracer("shop")})
	defer server.Close()
	const traceID, caller = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("traceparent", "00-"+traceID+"-"+caller+"-01")
	answer, err := server.Client().Do(request)
	if err != nil || answer.StatusCode != http.StatusCreated {
		t.Fatal(answer, err)
	}
	answer.Body.Close()
	consume(t, js, provider.Tracer("billing"))
	stop()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}

	parents := map[string]string{}
	ids := map[string]string{}
	for _, s := range spans.GetSpans() {
		ids[s.Name], parents[s.Name] = s.SpanContext.SpanID().String(), s.Parent.SpanID().String()
		if s.Name != "send default" && s.SpanContext.TraceID().String() != traceID {
			t.Errorf("%s is in trace %s", s.Name, s.SpanContext.TraceID())
		}
		if s.Name == "send default" && (len(s.Links) != 1 || s.Links[0].SpanContext.TraceID().String() != traceID) {
			t.Errorf("the call of the broker is linked to %v", s.Links)
		}
	}
	for name, parent := range map[string]string{"POST /orders": caller, "publish orders.created": ids["POST /orders"],
		"deliver orders.created": ids["publish orders.created"], "process orders.created": ids["publish orders.created"]} {
		if ids[name] == "" || parents[name] != parent {
			t.Errorf("%s is span %q below %s, want below %s", name, ids[name], parents[name], parent)
		}
	}
}
