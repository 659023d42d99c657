package main

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/outboxrelay/outbox"
)

// line is a message as JSON: what publish reads, and what is written about messages.
type line struct {
	ID               string            `json:"id,omitempty"`
	Topic            string            `json:"topic"`
	Key              string            `json:"key,omitempty"`
	ContentType      *string           `json:"content_type,omitempty"` // empty: none, although the payload is JSON
	Headers          map[string]string `json:"headers,omitempty"`
	Payload          json.RawMessage   `json:"payload,omitempty"`
	PayloadBase64    *string           `json:"payload_base64,omitempty"`
	DedupKey         string            `json:"dedup_key,omitempty"`
	DelaySeconds     float64           `json:"delay_seconds,omitempty"`
	DeliverAt        string            `json:"deliver_at,omitempty"`
	TTLSeconds       float64           `json:"ttl_seconds,omitempty"`
	ExpiresAt        string            `json:"expires_at,omitempty"`
	BrokerTTLSeconds float64           `json:"broker_ttl_seconds,omitempty"`
	MaxAttempts      attempts          `json:"max_attempts,omitempty"`

	// What is written and, read again, changes nothing: the past of a message is not published.
	Seq         int64      `json:"seq,omitempty"`
	Attempt     int        `json:"attempt,omitempty"`
	Generation  int        `json:"generation,omitempty"`
	PublishedAt *time.Time `json:"published_at,omitempty"`
}

// attempts is a number of attempts, or "unlimited".
type attempts int

func (n attempts) MarshalJSON() ([]byte, error) {
	if n == outbox.Unlimited {
		return []byte(`"unlimited"`), nil
	}
	return json.Marshal(int(n))
}

func (n *attempts) UnmarshalJSON(text []byte) error {
	if string(text) == `"unlimited"` {
		*n = outbox.Unlimited
		return nil
	}
	if json.Unmarshal(text, (*int)(n)) != nil {
		return fmt.Errorf(`max_attempts %s: must be a whole number or "unlimited"`, text)
	}
	return nil
}

const jsonType = "application/json"

// newLine is a delivered message.
func newLine(d *outbox.Delivery) line {
	published := d.PublishedAt.UTC()
	l := line{ID: d.ID.String(), Topic: d.Topic, Key: d.Key, DedupKey: d.DedupKey,
		MaxAttempts: attempts(d.MaxAttempts), BrokerTTLSeconds: d.BrokerTTL.Seconds(), Seq: d.Seq, Attempt: d.Attempt,
		Generation: d.Generation, PublishedAt: &published}
	for name, value := range d.Headers {
		if l.Headers == nil {
			l.Headers = map[string]string{}
		}
		l.Headers[name] = value
	}
	l.setPayload(d.Payload)
	if d.ContentType != "" || l.Payload != nil {
		l.ContentType = &d.ContentType
	}
	return l
}

// setPayload shows JSON as it is, and all else as base64: payloads are bytes, and come back unchanged.
func (l *line) setPayload(payload []byte) {
	if isVerbatim(payload) {
		l.Payload = payload
		return
	}
	text := base64.StdEncoding.EncodeToString(payload)
	l.PayloadBase64 = &text
}

// encode makes a line of the file that publish reads.
func (l line) encode() ([]byte, error) {
	payload := l.Payload
	if payload == nil {
		return encode(l)
	}
	l.Payload = json.RawMessage(payloadMark)
	return encode(l, payload)
}

// parseLine reads a message from JSON; keys that are not known are refused.
func parseLine(text []byte) (outbox.Message, error) {
	if !utf8.Valid(text) { // decoding would change it, and make one key of two
		return outbox.Message{}, errors.New("is not valid UTF-8; payload_base64 takes any bytes")
	}
	var l line
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&l); err != nil {
		return outbox.Message{}, lineProblem(err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return outbox.Message{}, errors.New("more than one value on the line")
	}
	return l.message()
}

func (l *line) message() (m outbox.Message, err error) {
	m = outbox.Message{Topic: l.Topic, Key: l.Key, Headers: l.Headers, DedupKey: l.DedupKey, MaxAttempts: int(l.MaxAttempts)}
	if l.ContentType != nil {
		m.ContentType = *l.ContentType
	}
	m.Delay, err = parseSeconds("delay_seconds", l.DelaySeconds)
	if err == nil {
		m.TTL, err = parseSeconds("ttl_seconds", l.TTLSeconds)
	}
	if err == nil {
		m.BrokerTTL, err = parseSeconds("broker_ttl_seconds", l.BrokerTTLSeconds)
	}
	if err == nil {
		err = readTime("deliver_at", l.DeliverAt, &m.DeliverAt)
	}
	if err == nil {
		err = readTime("expires_at", l.ExpiresAt, &m.ExpiresAt)
	}
	if err != nil {
		return m, err
	}
	if l.ID != "" {
		if m.ID, err = outbox.ParseID(l.ID); err != nil {
			return m, fmt.Errorf("id %q: is no UUID", l.ID)
		}
	}
	switch {
	case l.Payload != nil && l.PayloadBase64 != nil:
		return m, errors.New("payload and payload_base64 exclude each other: give one of them")
	case l.PayloadBase64 != nil:
		if m.Payload, err = base64.StdEncoding.DecodeString(*l.PayloadBase64); err != nil {
			return m, fmt.Errorf("payload_base64: must be base64 with padding: %w", err)
		}
	case l.Payload != nil:
		m.Payload = l.Payload
		if l.ContentType == nil {
			m.ContentType = jsonContentType(m)
		}
	}
	return m, nil
}

// jsonContentType is what a JSON payload has when nothing else is said, as with publish_json of SQL.
func jsonContentType(m outbox.Message) string {
	for name := range m.Headers {
		if strings.EqualFold(name, "content-type") {
			return ""
		}
	}
	return jsonType
}

func readTime(name, text string, to *time.Time) error {
	if err := parseInto(to, text, parseTime); err != nil {
		return fmt.Errorf("%s %q: %w", name, text, err)
	}
	return nil
}

// parseSeconds refuses what a duration cannot hold; all other bounds are those of publishing.
func parseSeconds(name string, s float64) (time.Duration, error) {
	const most = float64(math.MaxInt64 / time.Second)
	if s < -most || s > most {
		return 0, fmt.Errorf("%s %g: must be at most %.0f", name, s, most)
	}
	return seconds(s), nil
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
