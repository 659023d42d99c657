package otelhook

import (
	"sync"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

const (
	// maxTopics is how many topics have series of their own in a process.
	maxTopics = 200
	// others is the topic of all further ones; a topic of that name is counted with them.
	others = "_other"
)

// series are the attributes of measurements, made once.
type series struct {
	known sync.Map // seriesKey: *oneSeries

	mu     sync.Mutex
	topics map[string]bool
}

type seriesKey struct{ destination, topic string }

// oneSeries has its options as the slices that calls take, which would be made with each of them.
type oneSeries struct {
	add         []metric.AddOption    // destination, unless that is empty, and topic
	record      []metric.RecordOption // the same
	destination []metric.RecordOption
}

func newSeries() *series { return &series{topics: map[string]bool{}} }

// of returns the series of a topic, or of the others if there are too many, and whether it is new.
func (s *series) of(destination, topic string) (_ *oneSeries, fresh bool) {
	key := seriesKey{destination, topic}
	if found, ok := s.known.Load(key); ok {
		return found.(*oneSeries), false
	}
	if !s.admit(topic) {
		return s.of(destination, others)
	}
	attrs := []attribute.KeyValue{attribute.String("topic", topic)}
	if destination != "" {
		attrs = append(attrs, attribute.String("destination", destination))
	}
	option := metric.WithAttributeSet(attribute.NewSet(attrs...))
	made := &oneSeries{[]metric.AddOption{option}, []metric.RecordOption{option}, []metric.RecordOption{destinationOption(destination)}}
	found, known := s.known.LoadOrStore(key, made)
	return found.(*oneSeries), !known
}

func (s *series) admit(topic string) bool {
	if topic == others {
		return true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.topics[topic] && len(s.topics) < maxTopics {
		s.topics[topic] = true
	}
	return s.topics[topic]
}
