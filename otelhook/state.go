package otelhook

import (
	"maps"
	"sync"
	"time"

	"github.com/outboxrelay/outbox"
)

// staleLooks is how many looks may fail before the gauges of the last one end.
const staleLooks = 4

// state is what gauges tell.
type state struct {
	mu     sync.Mutex
	faults map[string]*outbox.Fault // by destination; nil: none
	stream *outbox.Streaming        // nil: no relay has begun
	sample *outbox.Sample
}

func newState() *state { return &state{faults: map[string]*outbox.Fault{}} }

func (s *state) setFault(destination string, f *outbox.Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults[destination] = f
}

func (s *state) setStream(stream outbox.Streaming) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stream = &stream
}

func (s *state) setSample(sample *outbox.Sample) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sample = sample
}

// read leaves out what is too old to be how things are.
func (s *state) read(now time.Time) *reading {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := &reading{faults: maps.Clone(s.faults), stream: s.stream, sample: s.sample, now: now}
	if r.sample != nil && now.Sub(r.sample.At) > staleLooks*r.sample.Interval {
		r.sample = nil
	}
	return r
}
