package rabbitsink

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

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
	headerCausation   = "Outbox-Causation"
	headerTracking    = "x-outbox-tracking-ids"
)

// message makes what is published, and its routing key. An error is the message's fault and final.
func (s *Sink) message(d *outbox.Delivery, now time.Time) (amqp.Publishing, string, error) {
	key := s.routingKey.Of(d)
	if len(key) > maxShort {
		return amqp.Publishing{}, "", outbox.Permanent(fmt.Errorf("the routing key has %d bytes, AMQP carries 255: %.80q…", len(key), key))
	}
	h, err := s.headers(d)
	if err != nil {
		return amqp.Publishing{}, "", outbox.Permanent(err)
	}
	m := amqp.Publishing{
		Headers: h, ContentType: d.ContentType, DeliveryMode: amqp.Persistent, Expiration: expiration(d, now),
		MessageId: d.ID.String(), Timestamp: d.PublishedAt, Body: d.Payload,
	}
	if len(m.ContentType) > maxShort {
		return amqp.Publishing{}, "", outbox.Permanent(fmt.Errorf("the content type has %d bytes, AMQP carries 255", len(m.ContentType)))
	}
	if most := s.maxMessage.Load(); most > 0 && int64(len(m.Body)) > most {
		return amqp.Publishing{}, "", outbox.Permanent(fmt.Errorf("%w: %d bytes, RabbitMQ takes %d (max_message_size)", errTooLarge, len(m.Body), most))
	}
	return m, key, nil
}

// errTooLarge is what a message's error wraps that RabbitMQ does not take because of its size.
var errTooLarge = errors.New("message too large")

// headers makes the headers and checks that they can be carried. Publishing has checked most of that already; a row
// may come from elsewhere.
func (s *Sink) headers(d *outbox.Delivery) (amqp.Table, error) {
	h := make(amqp.Table, len(d.Headers)+8)
	for name, value := range d.Headers {
		switch {
		case !template.IsHeaderName(name) || len(name) > maxShort:
			return nil, fmt.Errorf("header name %.80q cannot be sent to RabbitMQ", name)
		case isReserved(name):
			return nil, fmt.Errorf("header %s is reserved", name)
		case name == "CC" || name == "BCC": // a text there makes RabbitMQ close the channel
			return nil, fmt.Errorf("header %s cannot be sent to RabbitMQ, which takes it for a list of routing keys", name)
		case !strings.EqualFold(name, "content-type"):
			h[name] = value
		}
	}
	h[headerID] = d.ID.String()
	h[headerTopic] = d.Topic
	h[headerSeq] = strconv.FormatInt(d.Seq, 10)
	h[headerPublishedAt] = d.PublishedAt.UTC().Format(time.RFC3339Nano)
	if d.Key != "" {
		h[headerKey] = d.Key
	}
	if d.Generation > 0 {
		h[headerGeneration] = strconv.Itoa(d.Generation)
	}
	if s.cfg.TrackingIDs {
		if ids := trackingIDs(d); ids != "" {
			h[headerTracking] = ids
		}
	}
	return h, checkSize(h)
}

// isReserved: names that the sink sets. Outbox-Causation travels with the message.
func isReserved(name string) bool {
	const prefix = "outbox-"
	return len(name) >= len(prefix) && strings.EqualFold(name[:len(prefix)], prefix) && !strings.EqualFold(name, headerCausation)
}

// trackingIDs is the chain of causes as a JSON list, without what is no id; empty if there is none.
func trackingIDs(d *outbox.Delivery) string {
	ids := d.Causation()
	if len(ids) == 0 {
		return ""
	}
	text, err := json.Marshal(ids)
	if err != nil {
		return "" // texts can be marshalled
	}
	return string(text)
}

// checkSize keeps properties and headers within one frame, as AMQP wants it: RabbitMQ would close the connection.
// 131,072 is RabbitMQ's own limit of a frame, and the least that anybody sets.
func checkSize(h amqp.Table) error {
	const most = 131_072 - 2048 // the other properties, at their longest
	size := 0
	for name, value := range h {
		size += len(name) + 1 + 5 // lengths and type
		if text, ok := value.(string); ok {
			size += len(text)
		}
	}
	if size > most {
		return fmt.Errorf("%w: the headers have %d bytes, RabbitMQ takes %d", errTooLarge, size, most)
	}
	return nil
}

// expiration is AMQP's: milliseconds from the delivery, as text; empty: none.
func expiration(d *outbox.Delivery, now time.Time) string {
	ttl := d.BrokerTTL
	if !d.Deadline.IsZero() {
		left := max(d.Deadline.Sub(now), time.Millisecond)
		if ttl <= 0 || left < ttl {
			ttl = left
		}
	}
	if ttl <= 0 || ttl > maxExpiration {
		return ""
	}
	return strconv.FormatInt(max(ttl.Milliseconds(), 1), 10)
}
