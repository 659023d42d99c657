package otelhook

import (
	"context"
	"maps"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/propagation"
	semconv "go.opentelemetry.io/otel/semconv/v1.37.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/outboxrelay/outbox"
)

// defaultSystem is the messaging system of what is published, and of destinations that have no other name.
const defaultSystem = "outbox"

type publishKey struct{}

// publishCall is what the end of a publish call needs to know.
type publishCall struct {
	span   trace.Span // nil: none of its own
	topics []string
}

// publishStart puts the trace context into the messages' headers.
func (o *Observer) publishStart(ctx context.Context, ms []outbox.Message) context.Context {
	call := &publishCall{}
	if o.tracer != nil && o.cfg.PublishSpans {
		ctx, call.span = o.tracer.Start(ctx, spanName("publish", ms), trace.WithSpanKind(trace.SpanKindProducer),
			trace.WithAttributes(publishAttributes(ms)...))
	}
	if trace.SpanContextFromContext(ctx).IsValid() {
		inject(ctx, ms)
	}
	if o.meter == nil && call.span == nil {
		return ctx
	}
	call.topics = make([]string, len(ms))
	for i := range ms {
		call.topics[i] = ms[i].Topic
	}
	return context.WithValue(ctx, publishKey{}, call)
}

// spanName names what all messages have in common.
func spanName(operation string, ms []outbox.Message) string {
	if topic := commonTopic(ms); topic != "" {
		return operation + " " + topic
	}
	return operation
}

func commonTopic(ms []outbox.Message) string {
	for _, m := range ms[1:] {
		if m.Topic != ms[0].Topic {
			return ""
		}
	}
	return ms[0].Topic
}

func publishAttributes(ms []outbox.Message) []attribute.KeyValue {
	attrs := []attribute.KeyValue{semconv.MessagingSystemKey.String(defaultSystem),
		semconv.MessagingOperationName("publish"), semconv.MessagingOperationTypeSend}
	if topic := commonTopic(ms); topic != "" {
		attrs = append(attrs, semconv.MessagingDestinationName(topic))
	}
	switch {
	case len(ms) > 1:
		attrs = append(attrs, semconv.MessagingBatchMessageCount(len(ms)))
	case !ms[0].ID.IsZero():
		attrs = append(attrs, semconv.MessagingMessageID(ms[0].ID.String()))
	}
	return attrs
}

// inject gives the messages the headers traceparent and tracestate: not one that has a traceparent of its own, nor one
// whose headers would be too many or too large by them. That is no reason for a message not to be published.
func inject(ctx context.Context, ms []outbox.Message) {
	carrier := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(ctx, carrier)
	for i := range ms {
		if !traced(ms[i].Headers) && fits(ctx, &ms[i], carrier) {
			headers := make(map[string]string, len(ms[i].Headers)+len(carrier))
			maps.Copy(headers, ms[i].Headers)
			maps.Copy(headers, carrier)
			ms[i].Headers = headers
		}
	}
}

const traceparent = "traceparent"

func traced(headers map[string]string) bool {
	for name := range headers {
		if strings.EqualFold(name, traceparent) || strings.EqualFold(name, "tracestate") {
			return true
		}
	}
	return false
}

// fits reports whether a message has room for the headers beside those that it gets anyhow.
func fits(ctx context.Context, m *outbox.Message, more propagation.MapCarrier) bool {
	const others = 2 // content-type, Outbox-Causation
	if len(m.Headers)+len(more)+others > outbox.MaxHeaders {
		return false
	}
	size := len("content-type") + len(m.ContentType) + len("Outbox-Causation")
	for _, id := range outbox.Causation(ctx) {
		size += len(id) + len(",")
	}
	for _, headers := range []map[string]string{m.Headers, more} {
		for name, value := range headers {
			size += len(name) + len(value)
		}
	}
	return size <= outbox.MaxHeaderBytes
}
