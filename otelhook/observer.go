// Package otelhook turns the hooks of publishers and relays into OpenTelemetry spans and instruments. It needs the API
// only: what records and exports them is the program's choice.
//
//	observer, err := otelhook.New(&otelhook.Config{MeterProvider: otel.GetMeterProvider(), TracerProvider: otel.GetTracerProvider()})
//	store, err := pgstore.Open(ctx, url, &pgstore.Config{Hooks: observer.Hooks()})
//	relay, err := outbox.NewRelay(store, routes, &outbox.Config{Hooks: observer.Hooks()})
//
// The instruments are listed in docs/observability.md.
package otelhook

import (
	"context"
	"fmt"

	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/outboxrelay/outbox"
)

// scope names what made spans and instruments.
const scope = "github.com/outboxrelay/outbox/otelhook"

// Config says where observations go. The zero value records nothing, and passes the trace context on.
type Config struct {
	// MeterProvider makes the instruments. Nil: none.
	MeterProvider metric.MeterProvider
	// TracerProvider makes the spans of deliveries. Nil: none; the trace context of publishers reaches the headers of
	// messages and the contexts of handlers all the same.
	TracerProvider trace.TracerProvider
	// PublishSpans makes a span of each publish call too, which the messages then come from. Default: they come from the
	// span that is active in the caller's context.
	PublishSpans bool
	// Systems are what spans call the messaging systems behind destinations, such as "rabbitmq". Default "outbox".
	Systems map[string]string
}

// Observer holds the spans' tracer and the instruments. It may serve any number of publishers and relays of a process,
// at a time and one after another, but one outbox: the gauges of its depths have no other name.
type Observer struct {
	cfg    Config
	tracer trace.Tracer // nil: no spans
	meter  *meter       // nil: no instruments
}

// New makes an Observer; cfg may be nil.
func New(cfg *Config) (*Observer, error) {
	o := &Observer{}
	if cfg != nil {
		o.cfg = *cfg
	}
	if o.cfg.TracerProvider != nil {
		o.tracer = o.cfg.TracerProvider.Tracer(scope)
	}
	if o.cfg.MeterProvider != nil {
		var err error
		if o.meter, err = newMeter(o.cfg.MeterProvider.Meter(scope)); err != nil {
			return nil, fmt.Errorf("make instruments: %w", err)
		}
	}
	return o, nil
}

// Hooks are for outbox.Config, pgstore.Config and pgstore.PublishConfig.
func (o *Observer) Hooks() outbox.Hooks {
	h := outbox.Hooks{PublishStart: o.publishStart, DeliverStart: o.deliverStart, BatchStart: o.batchStart}
	if o.tracer != nil || o.meter != nil {
		h.PublishEnd, h.DeliverEnd = o.publishEnd, o.deliverEnd
	}
	if o.tracer != nil {
		h.BatchEnd = o.batchEnd
	}
	if m := o.meter; m != nil {
		h.RelayStart, h.Sampled, h.Streaming, h.Event = m.relayStart, m.sampled, m.streaming, m.event
	}
	return h
}

// Close takes the gauges off the meter. Publishers and relays must have stopped.
func (o *Observer) Close() error {
	if o.meter == nil {
		return nil
	}
	return o.meter.gauges.Unregister()
}

// deliverEnd ends what deliverStart began.
func (o *Observer) deliverEnd(ctx context.Context, d *outbox.Delivery, r outbox.Result) {
	if o.tracer != nil {
		endDelivery(ctx, r)
	}
	if o.meter != nil {
		o.meter.delivered(ctx, d, r)
	}
}

// publishEnd ends what publishStart began.
func (o *Observer) publishEnd(ctx context.Context, receipts []outbox.Receipt, err error) {
	call, _ := ctx.Value(publishKey{}).(*publishCall)
	if call == nil {
		return
	}
	if call.span != nil {
		endSpan(call.span, err, "")
	}
	if o.meter != nil {
		o.meter.published(ctx, call.topics, receipts)
	}
}
