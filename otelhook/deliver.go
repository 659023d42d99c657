package otelhook

import (
	"context"
	"maps"
	"slices"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	semconv "go.opentelemetry.io/otel/semconv/v1.37.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/outboxrelay/outbox"
)

const (
	attemptKey     = attribute.Key("outbox.message.attempt")
	generationKey  = attribute.Key("outbox.message.generation")
	destinationKey = attribute.Key("outbox.destination")
	outcomeKey     = attribute.Key("outbox.outcome")
)

// maxLinks bounds the links of a batch's span; more than this no backend keeps by default.
const maxLinks = 128

type batchKey struct{}

// deliverStart makes the publisher's trace context the handler's, with a span of the delivery if there are spans.
func (o *Observer) deliverStart(ctx context.Context, d *outbox.Delivery) context.Context {
	batch, inBatch := ctx.Value(batchKey{}).(trace.SpanContext)
	switch {
	case o.tracer != nil:
		return o.startDelivery(ctx, d, batch)
	case inBatch: // no handler sees the context
		return ctx
	}
	return propagation.TraceContext{}.Extract(ctx, headers(d.Headers))
}

func (o *Observer) startDelivery(ctx context.Context, d *outbox.Delivery, batch trace.SpanContext) context.Context {
	options := []trace.SpanStartOption{trace.WithSpanKind(trace.SpanKindConsumer)}
	if batch.IsValid() {
		options = append(options, trace.WithLinks(trace.Link{SpanContext: batch}))
	}
	if origin := originOf(d); origin.IsValid() {
		ctx = trace.ContextWithRemoteSpanContext(ctx, origin)
	} else {
		options = append(options, trace.WithNewRoot())
	}
	ctx, span := o.tracer.Start(ctx, "deliver "+d.Topic, options...)
	if span.IsRecording() { // most are not sampled, and attributes are most of the cost
		span.SetAttributes(deliveryAttributes(d)...)
	}
	return ctx
}

// originOf is the trace context in a message's headers.
func originOf(d *outbox.Delivery) trace.SpanContext {
	return trace.SpanContextFromContext(propagation.TraceContext{}.Extract(context.Background(), headers(d.Headers)))
}

// headers carry a trace context, whatever the case of the names is.
type headers map[string]string

func (h headers) Get(name string) string {
	if value, ok := h[name]; ok {
		return value
	}
	for other, value := range h {
		if strings.EqualFold(other, name) {
			return value
		}
	}
	return ""
}

// Set and Keys make it a carrier; nothing is written into the headers of a delivery.
func (h headers) Set(string, string) {}
func (h headers) Keys() []string     { return slices.Collect(maps.Keys(h)) }

func deliveryAttributes(d *outbox.Delivery) []attribute.KeyValue {
	attrs := []attribute.KeyValue{semconv.MessagingSystemKey.String(defaultSystem),
		semconv.MessagingOperationName("deliver"), semconv.MessagingOperationTypeProcess,
		semconv.MessagingDestinationName(d.Topic), semconv.MessagingMessageID(d.ID.String()), attemptKey.Int(d.Attempt)}
	if d.Generation > 0 {
		attrs = append(attrs, generationKey.Int(d.Generation))
	}
	return attrs
}

func endDelivery(ctx context.Context, r outbox.Result) {
	span := trace.SpanFromContext(ctx)
	if span.IsRecording() {
		span.SetAttributes(destinationKey.String(r.Destination))
		if r.Kind != 0 {
			span.SetAttributes(outcomeKey.String(r.Kind.String()))
		}
	}
	err, class := r.Err, r.Class
	if class == "" && outbox.IsUnavailable(err) {
		class = outbox.ClassUnavailable
	}
	if r.Kind == outbox.Delivered || r.Kind == outbox.Dropped { // a drop is an error by its type only
		err = nil
	}
	endSpan(span, err, class)
}

// endSpan ends a span, with the error if there is one.
func endSpan(span trace.Span, err error, class string) {
	if err != nil && span.IsRecording() {
		if class == "" {
			class = outbox.ClassError
		}
		span.SetAttributes(semconv.ErrorTypeKey.String(class))
		span.SetStatus(codes.Error, firstLine(err.Error()))
	}
	span.End()
}

// firstLine leaves the stack of a panic to the log.
func firstLine(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	return line
}

// batchStart makes a span of the call, linked to where its messages come from: they are parents of none, since a call
// has many.
func (o *Observer) batchStart(ctx context.Context, destination string, ds []*outbox.Delivery) context.Context {
	if o.tracer == nil {
		return context.WithValue(ctx, batchKey{}, trace.SpanContext{})
	}
	system := o.cfg.Systems[destination]
	if system == "" {
		system = defaultSystem
	}
	var links []trace.Link
	for _, d := range ds {
		if origin := originOf(d); origin.IsSampled() && len(links) < maxLinks {
			links = append(links, trace.Link{SpanContext: origin})
		}
	}
	ctx, span := o.tracer.Start(ctx, "send "+destination, trace.WithNewRoot(), trace.WithSpanKind(trace.SpanKindClient), trace.WithLinks(links...),
		trace.WithAttributes(semconv.MessagingSystemKey.String(system), semconv.MessagingOperationName("send"),
			semconv.MessagingOperationTypeSend, destinationKey.String(destination), semconv.MessagingBatchMessageCount(len(ds))))
	return context.WithValue(ctx, batchKey{}, span.SpanContext())
}

func (o *Observer) batchEnd(ctx context.Context, err error) {
	endSpan(trace.SpanFromContext(ctx), err, "")
}
