package outbox

import (
	"context"
	"errors"
	"fmt"
	"slices"
)

// HandlerFunc handles one message. What its error means is said with Permanent, RetryAfter, Unavailable and
// Drop; a plain error is a failed attempt.
type HandlerFunc func(ctx context.Context, d *Delivery) error

// Mux is the sink of in-process handlers: it gives each message to the handler of its topic. An exact topic
// wins over patterns, and of the patterns the one that was registered first. Each handler has a breaker of
// its own: one that is unavailable does not stop the others.
//
// Register all handlers before the Mux is given to NewRelay, which reports every mistake made with them; from
// then on a Mux is safe for concurrent use.
type Mux struct {
	exact    map[string]int // index into handlers
	patterns []int          // indexes into handlers, in order of registration
	handlers []muxHandler
	errs     []error
}

type muxHandler struct {
	pattern string
	handle  HandlerFunc
}

// NewMux makes a Mux without handlers.
func NewMux() *Mux { return &Mux{exact: map[string]int{}} }

// Handle registers the handler of a topic or of all topics that a pattern covers. A second handler of the same
// pattern, an invalid pattern and a nil handler are errors, which NewRelay returns.
func (m *Mux) Handle(pattern string, handle HandlerFunc) {
	if err := m.checkHandler(pattern, handle == nil); err != nil {
		m.errs = append(m.errs, err)
		return
	}
	m.handlers = append(m.handlers, muxHandler{pattern, handle})
	if CheckTopic(pattern) == nil {
		m.exact[pattern] = len(m.handlers) - 1
	} else {
		m.patterns = append(m.patterns, len(m.handlers)-1)
	}
}

func (m *Mux) checkHandler(pattern string, none bool) error {
	if err := CheckPattern(pattern); err != nil {
		return inField("Mux.Handle", err)
	}
	if none {
		return fieldError("Mux.Handle", pattern, "the handler is nil")
	}
	same := func(h muxHandler) bool { return h.pattern == pattern }
	if slices.ContainsFunc(m.handlers, same) {
		return fieldError("Mux.Handle", pattern, "has a handler already; a topic or pattern has one")
	}
	return nil
}

// On registers the handler of a typed topic. A payload that cannot be decoded makes the message dead with
// the class "decode", without calling the handler; an error that the handler returns is never mistaken for
// that.
func On[T any](m *Mux, topic Topic[T], handle func(ctx context.Context, d *Delivery, v T) error) {
	if err := CheckTopic(topic.name); err != nil {
		m.errs = append(m.errs, inField("On", err))
		return
	}
	if handle == nil {
		m.Handle(topic.name, nil)
		return
	}
	m.Handle(topic.name, func(ctx context.Context, d *Delivery) error {
		v, err := topic.codec.Decode(d.Payload)
		if err != nil {
			return Permanent(&decodeError{topic.name, err})
		}
		return handle(ctx, d, v)
	})
}

type decodeError struct {
	topic string
	err   error
}

func (e *decodeError) Error() string {
	return fmt.Sprintf("decode payload of topic %s: %v", e.topic, e.err)
}
func (e *decodeError) Unwrap() error { return e.err }

// Topics returns the patterns of all handlers.
func (m *Mux) Topics() []string {
	topics := make([]string, len(m.handlers))
	for i, h := range m.handlers {
		topics[i] = h.pattern
	}
	return topics
}

// Deliver calls the handler of the message's topic.
func (m *Mux) Deliver(ctx context.Context, d *Delivery) error {
	i := m.scopeOf(d.Topic)
	if i < 0 {
		return fmt.Errorf("no handler for topic %s", d.Topic)
	}
	return m.handlers[i].handle(ctx, d)
}

// check returns all mistakes that were made with the Mux.
func (m *Mux) check() error { return errors.Join(m.errs...) }

// scopeOf returns the index of a topic's handler, -1 if it has none.
func (m *Mux) scopeOf(topic string) int {
	if i, ok := m.exact[topic]; ok {
		return i
	}
	for _, i := range m.patterns {
		if MatchTopic(m.handlers[i].pattern, topic) {
			return i
		}
	}
	return -1
}

func (m *Mux) scopes() int { return len(m.handlers) }

func (m *Mux) scopeName(i int) string { return m.handlers[i].pattern }

// topicsOf returns the topics of some handlers, in the order in which handlers are found.
func (m *Mux) topicsOf(in func(scope int) bool) TopicSet {
	var set TopicSet
	for i, h := range m.handlers {
		if m.exact[h.pattern] == i && CheckTopic(h.pattern) == nil {
			set = append(set, TopicPattern{Pattern: h.pattern, In: in(i)})
		}
	}
	for _, i := range m.patterns {
		set = append(set, TopicPattern{Pattern: m.handlers[i].pattern, In: in(i)})
	}
	return set
}

var _ TopicLister = (*Mux)(nil)
