package otelhook

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/outboxrelay/outbox"
)

// meter records. Counters that name a topic know at most maxTopics of them; see series.
type meter struct {
	series *series
	state  *state
	gauges metric.Registration

	counts   [outbox.GivenBack + 1]metric.Int64Counter // by kind of outcome; the first is none
	entered  metric.Int64Counter                       // published by this process
	handler  metric.Float64Histogram
	latency  metric.Float64Histogram
	fenced   metric.Int64Counter
	stuck    metric.Int64Counter
	opened   metric.Int64Counter
	lost     metric.Int64Counter
	failures metric.Int64Counter
}

// Bounds of the histograms' buckets, in seconds: from what an idle machine takes to what a time limit allows.
func durationBounds() []float64 {
	return []float64{0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60}
}

func latencyBounds() []float64 {
	return append(durationBounds(), 300, 900, 3600, 14400, 86400)
}

func newMeter(in metric.Meter) (*meter, error) {
	m := &meter{series: newSeries(), state: newState()}
	b := &builder{meter: in}
	m.entered = b.counter(published)
	m.counts[outbox.Delivered] = b.counter(delivered)
	m.counts[outbox.Retried] = b.counter(retried)
	m.counts[outbox.Died] = b.counter(deadLettered)
	m.counts[outbox.Dropped] = b.counter(dropped)
	m.counts[outbox.Expired] = b.counter(expired)
	m.counts[outbox.GivenBack] = b.counter(givenBack)
	m.counts[outbox.Unlisted] = m.counts[outbox.GivenBack]
	m.fenced = b.counter(fenced)
	m.handler = b.histogram(handlerDuration, durationBounds())
	m.latency = b.histogram(commitToAck, latencyBounds())
	m.opened, m.stuck = b.counter(breakerOpened), b.counter(stuck)
	m.lost, m.failures = b.counter(leaseLost), b.counter(storeFailures)
	m.gauges = b.gauges(m.state)
	if b.err == nil {
		m.begin()
	}
	return m, b.err
}

// begin makes what is known from the start exist at zero.
func (m *meter) begin() {
	ctx := context.Background()
	m.entered.Add(ctx, 0, m.of(ctx, "", others).add...)
	m.lost.Add(ctx, 0)
	m.failures.Add(ctx, 0)
}

// relayStart makes the series of a relay's destinations exist at zero, those of topics that have a name, and of others.
func (m *meter) relayStart(ctx context.Context, lanes []outbox.LaneInfo) {
	m.state.setStream(outbox.Streaming{})
	for _, l := range lanes {
		m.state.setFault(l.Destination, l.Fault)
		m.of(ctx, l.Destination, others)
		for _, p := range l.Topics {
			if p.In && outbox.CheckTopic(p.Pattern) == nil {
				m.of(ctx, l.Destination, p.Pattern)
			}
		}
		to := destinationOption(l.Destination)
		m.opened.Add(ctx, 0, to)
		m.stuck.Add(ctx, 0, to)
	}
}

// of returns the series of a topic. With the first of them all counters of the topic begin, at zero: the increase of one
// that begins at its first event is not seen by who scrapes.
func (m *meter) of(ctx context.Context, destination, topic string) *oneSeries {
	s, fresh := m.series.of(destination, topic)
	if fresh && destination != "" {
		for _, c := range m.counts[1:] {
			c.Add(ctx, 0, s.add...)
		}
		m.fenced.Add(ctx, 0, s.add...)
	}
	return s
}

func (m *meter) published(ctx context.Context, topics []string, receipts []outbox.Receipt) {
	for i, r := range receipts {
		if !r.Duplicate && i < len(topics) {
			m.entered.Add(ctx, 1, m.of(ctx, "", topics[i]).add...)
		}
	}
}

// delivered records how long an attempt took, and with a success how long the message was on its way. It is counted
// when its result is stored.
func (m *meter) delivered(ctx context.Context, d *outbox.Delivery, r outbox.Result) {
	s := m.of(ctx, r.Destination, d.Topic)
	m.handler.Record(ctx, r.Took.Seconds(), s.record...)
	if r.Kind == outbox.Delivered {
		m.latency.Record(ctx, r.Age.Seconds(), s.destination...)
	}
}

func (m *meter) event(ctx context.Context, e outbox.Event) {
	switch e.Kind {
	case outbox.EventSettled:
		m.counts[e.Outcome.Kind].Add(ctx, 1, m.of(ctx, e.Destination, e.Topic).add...)
	case outbox.EventFenced:
		m.fenced.Add(ctx, 1, m.of(ctx, e.Destination, e.Topic).add...)
	case outbox.EventClosed:
		m.opened.Add(ctx, 1, destinationOption(e.Destination))
	case outbox.EventFault:
		m.state.setFault(e.Destination, e.Fault)
	case outbox.EventStuck:
		m.stuck.Add(ctx, int64(e.Count), destinationOption(e.Destination))
	case outbox.EventLeaseLost:
		m.lost.Add(ctx, 1)
	case outbox.EventStoreFailed:
		m.failures.Add(ctx, 1)
	}
}

func (m *meter) sampled(_ context.Context, s *outbox.Sample) { m.state.setSample(s) }

func (m *meter) streaming(_ context.Context, s outbox.Streaming) { m.state.setStream(s) }

func destinationOption(name string) metric.MeasurementOption {
	return metric.WithAttributeSet(attribute.NewSet(attribute.String("destination", name)))
}
