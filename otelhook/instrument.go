package otelhook

import (
	"context"
	"errors"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/outboxrelay/outbox"
)

// instrument is what makes one; docs/observability.md has a line for each.
type instrument struct{ name, unit, attributes, help string }

const (
	messages = "{message}"
	seconds  = "s"
	bytes    = "By"
	perTopic = "destination, topic"
)

// What a process counts of its own work.
var (
	published       = instrument{"outbox.published", messages, "topic", "Messages published by this process, those of transactions that were rolled back included."}
	delivered       = instrument{"outbox.delivered", messages, perTopic, "Messages that their destination or handler accepted."}
	retried         = instrument{"outbox.retried", messages, perTopic, "Failed attempts that will be repeated."}
	deadLettered    = instrument{"outbox.dead_lettered", messages, perTopic, "Messages that failed for good and are dead letters now."}
	dropped         = instrument{"outbox.dropped", messages, perTopic, "Messages that their handler dropped with a reason."}
	expired         = instrument{"outbox.expired", messages, perTopic, "Messages whose life ended before they were delivered."}
	givenBack       = instrument{"outbox.given_back", messages, perTopic, "Claimed messages that were put back without an attempt spent."}
	fenced          = instrument{"outbox.fenced", messages, perTopic, "Results refused because another relay had taken the message over."}
	handlerDuration = instrument{"outbox.handler.duration", seconds, perTopic, "Time of an attempt, whatever its result."}
	commitToAck     = instrument{"outbox.commit_to_ack", seconds, "destination", "Time from the publishing of a message to its acceptance by the destination."}
	breakerOpened   = instrument{"outbox.breaker.opened", "{time}", "destination", "How often a destination, or the handler of a topic, was found unavailable."}
	stuck           = instrument{"outbox.stuck", messages, "destination", "Messages in the hands of handlers that ignored their cancelled context."}
	leaseLost       = instrument{"outbox.lease_lost", "{time}", "", "How often the relay lost its lease and began again."}
	storeFailures   = instrument{"outbox.store.failures", "{call}", "", "Calls of the database that failed and were repeated."}
)

// gauge is an instrument that is read from the state when somebody asks.
type gauge struct {
	instrument
	// read tells the values; none when there is nothing to tell, which is how a series ends.
	read func(s *reading) []value
}

type value struct {
	n     float64
	attrs []attribute.KeyValue
}

// reading is what gauges are read from.
type reading struct {
	faults map[string]*outbox.Fault
	stream *outbox.Streaming // nil: no relay has begun
	sample *outbox.Sample    // nil: this process does not look, or has not looked for too long
	now    time.Time
}

// gauges are all of them. One that comes from a look at the outbox reads a field of the sample.
func gauges() []gauge {
	return []gauge{
		{instrument{"outbox.breaker.open", "{state}", "destination", "1 while the destination takes no messages, as this relay finds it."}, perFault(func(f *outbox.Fault) bool { return f != nil })},
		{instrument{"outbox.breaker.misconfigured", "{state}", "destination", "1 while the destination takes no messages until somebody changes something."}, perFault(func(f *outbox.Fault) bool { return f != nil && f.Misconfigured })},
		{instrument{"outbox.streaming", "{state}", "", "1 while this relay streams new messages from the WAL."}, ofStream(func(s *outbox.Streaming) float64 { return oneIf(s.On) })},
		{instrument{"outbox.stream.failing", "{state}", "", "1 while this relay is to stream and cannot, or could not take over from the one that does; it polls meanwhile."}, ofStream(func(s *outbox.Streaming) float64 { return oneIf(s.Problem != "") })},
		{instrument{"outbox.stream.lag", seconds, "", "Time from a commit to its arrival by the stream, as heartbeats through the WAL measure it."}, ofStream(func(s *outbox.Streaming) float64 { return s.Lag.Seconds() })},
		{instrument{"outbox.stream.buffered", messages, "", "Messages that the stream has brought and that were not claimed yet."}, ofStream(func(s *outbox.Streaming) float64 { return float64(s.Buffered) })},
		{instrument{"outbox.ready", messages, "", "Messages that may be delivered now; above 10,000 an estimate."}, ofSample(func(s *outbox.Sample) float64 { return float64(s.Ready.Messages) })},
		{instrument{"outbox.in_flight", messages, "", "Messages that relays hold."}, ofSample(func(s *outbox.Sample) float64 { return float64(s.InFlight) })},
		{instrument{"outbox.waiting", messages, "state", "Messages that wait for their time: scheduled, or retrying after a failed attempt; above 10,000 an estimate."}, waitingByState},
		{instrument{"outbox.dead", messages, "", "Dead letters; above 10,000 an estimate."}, ofSample(func(s *outbox.Sample) float64 { return float64(s.Dead.Messages) })},
		{instrument{"outbox.blocked_keys", "{key}", "", "Keys held by a message that failed or is dead; counted up to 100,000."}, ofSample(func(s *outbox.Sample) float64 { return float64(s.HeldKeys.Messages) })},
		{instrument{"outbox.oldest_eligible.age", seconds, "", "How long the message that has waited longest could have been delivered already: neither blocked, nor scheduled, nor held."}, ofSample(func(s *outbox.Sample) float64 { return s.OldestEligible.Seconds() })},
		{instrument{"outbox.oldest_blocked.age", seconds, "", "How long the key that is blocked longest has been."}, ofSample(func(s *outbox.Sample) float64 { return s.HeldLongest.Seconds() })},
		{instrument{"outbox.unhandled", messages, "", "Ready messages of topics that no live relay delivers, among the oldest and newest 10,000."}, ofSample(func(s *outbox.Sample) float64 { return float64(s.Unhandled.Messages) })},
		{instrument{"outbox.slot.retained", bytes, "", "WAL that the database keeps for the relay that streams."}, ofSample(func(s *outbox.Sample) float64 { return float64(s.SlotRetained) })},
		{instrument{"outbox.slot.unconfirmed", bytes, "", "WAL that the relay that streams has not confirmed: how far it is behind."}, ofSample(func(s *outbox.Sample) float64 { return float64(s.SlotUnconfirmed) })},
		{instrument{"outbox.relays", "{relay}", "", "Live relays of the outbox."}, ofSample(func(s *outbox.Sample) float64 { return float64(s.Relays) })},
		{instrument{"outbox.sample.age", seconds, "", "How long ago this process looked at the outbox: the age of the gauges that come from a look."}, sampleAge},
	}
}

// sums are observed counters.
func sums() []gauge {
	return []gauge{
		{instrument{"outbox.entered", messages, "", "Messages ever published to the outbox by anybody, by its sequence; those of transactions that were rolled back included."}, ofSample(func(s *outbox.Sample) float64 { return float64(s.Entered) })},
		{instrument{"outbox.left", messages, "", "How often a message has left the ready ones: delivered, dead or set aside for a retry, as the database counts it."}, ofSample(func(s *outbox.Sample) float64 { return float64(s.Left) })},
	}
}

func ofSample(read func(s *outbox.Sample) float64) func(*reading) []value {
	return func(r *reading) []value {
		if r.sample == nil {
			return nil
		}
		return []value{{n: read(r.sample)}}
	}
}

func ofStream(read func(s *outbox.Streaming) float64) func(*reading) []value {
	return func(r *reading) []value {
		if r.stream == nil {
			return nil
		}
		return []value{{n: read(r.stream)}}
	}
}

func oneIf(is bool) float64 {
	if is {
		return 1
	}
	return 0
}

func sampleAge(r *reading) []value {
	if r.sample == nil {
		return nil
	}
	return []value{{n: max(r.now.Sub(r.sample.At).Seconds(), 0)}}
}

func waitingByState(r *reading) []value {
	if r.sample == nil {
		return nil
	}
	state := func(name string) []attribute.KeyValue { return []attribute.KeyValue{attribute.String("state", name)} }
	return []value{{float64(r.sample.Retrying.Messages), state("retrying")}, {float64(r.sample.Scheduled.Messages), state("scheduled")}}
}

func perFault(is func(*outbox.Fault) bool) func(*reading) []value {
	return func(r *reading) (values []value) {
		for name, fault := range r.faults {
			values = append(values, value{oneIf(is(fault)), []attribute.KeyValue{attribute.String("destination", name)}})
		}
		return values
	}
}

// builder makes instruments and remembers the errors.
type builder struct {
	meter metric.Meter
	err   error
}

func (b *builder) counter(i instrument) metric.Int64Counter {
	c, err := b.meter.Int64Counter(i.name, metric.WithUnit(i.unit), metric.WithDescription(i.help))
	b.err = errors.Join(b.err, err)
	return c
}

func (b *builder) histogram(i instrument, bounds []float64) metric.Float64Histogram {
	h, err := b.meter.Float64Histogram(i.name, metric.WithUnit(i.unit), metric.WithDescription(i.help), metric.WithExplicitBucketBoundaries(bounds...))
	b.err = errors.Join(b.err, err)
	return h
}

// gauges registers one callback for all, so that they are of one moment.
func (b *builder) gauges(s *state) metric.Registration {
	var all []metric.Observable
	reads := map[metric.Float64Observable]func(*reading) []value{}
	for _, g := range gauges() {
		o, err := b.meter.Float64ObservableGauge(g.name, metric.WithUnit(g.unit), metric.WithDescription(g.help))
		b.err = errors.Join(b.err, err)
		all, reads[o] = append(all, o), g.read
	}
	for _, g := range sums() {
		o, err := b.meter.Float64ObservableCounter(g.name, metric.WithUnit(g.unit), metric.WithDescription(g.help))
		b.err = errors.Join(b.err, err)
		all, reads[o] = append(all, o), g.read
	}
	registration, err := b.meter.RegisterCallback(func(_ context.Context, to metric.Observer) error {
		now := s.read(time.Now())
		for o, read := range reads {
			for _, v := range read(now) {
				to.ObserveFloat64(o, v.n, metric.WithAttributes(v.attrs...))
			}
		}
		return nil
	}, all...)
	b.err = errors.Join(b.err, err)
	return registration
}
