package outbox

import (
	"encoding/json"
	"fmt"
	"strings"
)

// CheckTopic reports with a *FieldError what is wrong with a topic: tokens of A-Z a-z 0-9 _ - joined by
// dots, at most 255 bytes.
func CheckTopic(topic string) error {
	if len(topic) == 0 || len(topic) > MaxTopicBytes {
		return fieldError("Topic", topic, fmt.Sprintf("must have 1 to %d bytes", MaxTopicBytes))
	}
	for token := range strings.SplitSeq(topic, ".") {
		if !isToken(token) {
			return fieldError("Topic", topic, "must be tokens of A-Z a-z 0-9 _ - joined by dots, such as orders.created")
		}
	}
	return nil
}

// CheckPattern reports with a *FieldError what is wrong with a topic pattern: a topic in which a token may
// be * (any one token) and the last one > (one or more tokens).
func CheckPattern(pattern string) error {
	if len(pattern) == 0 || len(pattern) > MaxTopicBytes {
		return fieldError("Topics", pattern, fmt.Sprintf("must have 1 to %d bytes", MaxTopicBytes))
	}
	tokens := strings.Split(pattern, ".")
	for i, token := range tokens {
		if token == "*" || (token == ">" && i == len(tokens)-1) || isToken(token) {
			continue
		}
		return fieldError("Topics", pattern, "must be tokens of A-Z a-z 0-9 _ - joined by dots; * stands for one token, > at the end for one or more")
	}
	return nil
}

func isToken(s string) bool {
	for i := range len(s) {
		if !isTokenByte(s[i]) {
			return false
		}
	}
	return s != ""
}

func isTokenByte(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '-'
}

// MatchTopic reports whether a valid pattern covers a valid topic.
func MatchTopic(pattern, topic string) bool {
	for {
		p, patternRest, patternMore := strings.Cut(pattern, ".")
		t, topicRest, topicMore := strings.Cut(topic, ".")
		switch {
		case p == ">":
			return true
		case p != "*" && p != t:
			return false
		case patternMore != topicMore:
			return false
		case !patternMore:
			return true
		}
		pattern, topic = patternRest, topicRest
	}
}

// TopicSet is an ordered list of patterns: the first that covers a topic decides whether the topic belongs
// to the set. A topic that no pattern covers does not. So "b.x of all that lane two takes, after lane one
// took a.>" has a plain form that every store can evaluate for itself.
type TopicSet []TopicPattern

// TopicPattern is one entry of a TopicSet.
type TopicPattern struct {
	Pattern string `json:"pattern"`
	In      bool   `json:"in"`
}

// Contains reports whether the topic belongs to the set.
func (s TopicSet) Contains(topic string) bool {
	for _, p := range s {
		if MatchTopic(p.Pattern, topic) {
			return p.In
		}
	}
	return false
}

// IsEmpty reports whether no topic can belong to the set.
func (s TopicSet) IsEmpty() bool {
	for _, p := range s {
		if p.In {
			return false
		}
	}
	return true
}

// Codec turns values of a typed topic into payloads and back.
type Codec[T any] interface {
	Encode(v T) ([]byte, error)
	Decode(payload []byte) (T, error)
	ContentType() string
}

// Topic ties a topic name to the Go type of its payloads. Make one with NewTopic or NewTopicCodec, publish
// with Message, handle with On. A Topic is a value, safe for concurrent use.
type Topic[T any] struct {
	name  string
	codec Codec[T]
}

// NewTopic makes a topic whose payloads are JSON. An invalid name is reported where the topic is used: by
// Message, and by NewRelay for a handler.
func NewTopic[T any](name string) Topic[T] {
	return Topic[T]{name, jsonCodec[T]{}}
}

// NewTopicCodec makes a topic with a codec of the caller's.
func NewTopicCodec[T any](name string, codec Codec[T]) Topic[T] {
	return Topic[T]{name, codec}
}

// Name returns the topic's name.
func (t Topic[T]) Name() string { return t.name }

// Message encodes v as a message of this topic. The key orders it; empty means no order.
func (t Topic[T]) Message(key string, v T) (Message, error) {
	if err := CheckTopic(t.name); err != nil {
		return Message{}, err
	}
	payload, err := t.codec.Encode(v)
	if err != nil {
		return Message{}, fmt.Errorf("encode payload of topic %s: %w", t.name, err)
	}
	return Message{Topic: t.name, Key: key, Payload: payload, ContentType: t.codec.ContentType()}, nil
}

type jsonCodec[T any] struct{}

func (jsonCodec[T]) Encode(v T) ([]byte, error) { return json.Marshal(v) }

func (jsonCodec[T]) Decode(payload []byte) (v T, err error) {
	err = json.Unmarshal(payload, &v)
	return v, err
}

func (jsonCodec[T]) ContentType() string { return "application/json" }
