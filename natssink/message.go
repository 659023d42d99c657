package natssink

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/outboxrelay/outbox"
	"github.com/outboxrelay/outbox/internal/template"
)

// Headers that the sink sets.
const (
	headerID          = "Outbox-Id"
	headerTopic       = "Outbox-Topic"
	headerKey         = "Outbox-Key"
	headerSeq         = "Outbox-Seq"
	headerPublishedAt = "Outbox-Published-At"
	headerGeneration  = "Outbox-Generation"
)

// message makes what is published. An error is the message's fault and final.
func (s *Sink) message(d *outbox.Delivery) (*nats.Msg, error) {
	subject, err := s.subject.of(d)
	if err != nil {
		return nil, outbox.Permanent(err)
	}
	h := headers{make(nats.Header, len(d.Headers)+8), make([]string, 0, len(d.Headers)+8)}
	id := d.ID.String()
	h.set(headerID, id)
	h.set(headerTopic, d.Topic)
	h.set(headerSeq, strconv.FormatInt(d.Seq, 10))
	h.set(headerPublishedAt, d.PublishedAt.UTC().Format(time.RFC3339Nano))
	if d.Key != "" {
		h.set(headerKey, d.Key)
	}
	if d.Generation > 0 {
		generation := strconv.Itoa(d.Generation)
		h.set(headerGeneration, generation)
		id += "." + generation
	}
	h.set(nats.MsgIdHdr, id)
	if s.cfg.Stream != "" {
		h.set(nats.ExpectedStreamHdr, s.cfg.Stream)
	}
	for name, value := range d.Headers {
		h.set(name, value)
	}
	if err := checkHeaders(h.all, d); err != nil {
		return nil, outbox.Permanent(err)
	}
	return &nats.Msg{Subject: subject, Header: h.all, Data: d.Payload}, s.checkSize(h.all, d)
}

// headers are made with two allocations.
type headers struct {
	all    nats.Header
	values []string
}

func (h *headers) set(name, value string) {
	h.values = append(h.values, value)
	n := len(h.values)
	h.all[name] = h.values[n-1 : n : n]
}

// checkHeaders refuses what would break the protocol's frame, or arrive changed. Publishing has checked all that
// already; a row may come from elsewhere.
func checkHeaders(h nats.Header, d *outbox.Delivery) error {
	for name, values := range h {
		if !template.IsHeaderName(name) {
			return fmt.Errorf("header name %q cannot be sent to NATS", name)
		}
		if strings.ContainsAny(values[0], "\r\n\x00") {
			return fmt.Errorf("header %s has a line break or NUL and cannot be sent to NATS: %q", name, values[0])
		}
		if strings.Trim(values[0], " \t") != values[0] { // the client would cut it, and make one key of two
			return fmt.Errorf("header %s begins or ends with white space and cannot be sent to NATS: %q", name, values[0])
		}
	}
	for name := range d.Headers {
		if isReserved(name) {
			return fmt.Errorf("header %s is reserved", name)
		}
	}
	return nil
}

// isReserved: names that the sink or NATS sets. Outbox-Causation travels with the message.
func isReserved(name string) bool {
	lower := strings.ToLower(name)
	return strings.HasPrefix(lower, "nats-") || strings.HasPrefix(lower, "outbox-") && lower != "outbox-causation"
}

// errTooLarge is what a message's error wraps that the server or the stream does not take because of its size.
var errTooLarge = errors.New("message too large")

// checkSize refuses what the server would answer with the end of the connection.
func (s *Sink) checkSize(h nats.Header, d *outbox.Delivery) error {
	size := int64(len(d.Payload))
	const frame = 14 // NATS/1.0, the line breaks around it and at the end
	size += frame
	for name, values := range h {
		size += int64(len(name) + len(values[0]) + len(": \r\n"))
	}
	if most := s.conn.MaxPayload(); s.conn.IsConnected() && size > most {
		return outbox.Permanent(fmt.Errorf("%w: %d bytes with headers, the server takes %d (max_payload)", errTooLarge, size, most))
	}
	if most := s.maxMsgSize.Load(); most > 0 && size > most {
		return outbox.Permanent(fmt.Errorf("%w: %d bytes with headers, the stream takes %d (max_msg_size)", errTooLarge, size, most))
	}
	return nil
}
