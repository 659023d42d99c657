package outbox

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Limits of a message. They hold for every store and are checked before anything is sent to the database.
const (
	MaxTopicBytes     = 255
	MaxKeyBytes       = 512
	MaxDedupKeyBytes  = 255
	MaxHeaders        = 64
	MaxHeaderNameLen  = 64
	MaxHeaderBytes    = 16 << 10 // names and values together
	DefaultMaxPayload = 1 << 20
	MaxPayloadCeiling = 64 << 20 // the highest limit that can be configured
)

// Unlimited as a number of attempts retries for ever.
const Unlimited = math.MaxInt32

// contentTypeHeader is where Message.ContentType travels.
const contentTypeHeader = "content-type"

// Message is what a caller publishes. Only Topic is required.
type Message struct {
	// ID names the message over all its attempts and is what consumers deduplicate by. Zero: Publish makes
	// one. A caller's own id must be unique while the message is undelivered.
	ID ID
	// Topic routes the message: tokens of letters, digits, _ and - joined by dots, at most 255 bytes.
	Topic string
	// Key orders messages: those with the same key are delivered one after another, in the order they were
	// published. Empty: no order. At most 512 bytes of UTF-8 without control characters.
	Key string
	// Payload is kept and delivered unchanged. At most 1 MiB unless configured otherwise.
	Payload []byte
	// ContentType travels as the header content-type; giving both is fine if they agree.
	ContentType string
	// Headers travel with the message: names of letters, digits, dot, _ and -, unique without regard to
	// case; values UTF-8 without control characters. Names that begin with Outbox- or Nats- are refused.
	Headers map[string]string
	// DedupKey makes publishing idempotent within the topic: while a message with this key is undelivered or
	// dead, publishing another reports a duplicate. At most 255 bytes.
	DedupKey string
	// Delay or DeliverAt (one of them) postpones the first attempt, by the database's clock. The past is now.
	Delay     time.Duration
	DeliverAt time.Time
	// TTL or ExpiresAt (one of them) ends the message's life, counted from publish by the database's clock:
	// an expired message is not delivered.
	TTL       time.Duration
	ExpiresAt time.Time
	// BrokerTTL is how long a broker keeps the message, counted from its delivery to the broker.
	BrokerTTL time.Duration
	// MaxAttempts ends retrying; the message is then dead. Zero: the rule's. Unlimited: never.
	MaxAttempts int
}

// Receipt tells what Publish did with one message.
type Receipt struct {
	ID ID
	// Duplicate: a message with this DedupKey is there already, nothing was published and ID is zero.
	Duplicate bool
}

// Prepare checks a message against all limits and completes it as stores keep it: an id made when there is
// none, the content type and the context's chain of causes among a copy of the headers. It is for implementations of a
// publisher; maxPayload zero means DefaultMaxPayload. The error is a *FieldError.
func Prepare(ctx context.Context, m Message, maxPayload int) (Message, error) {
	if maxPayload == 0 {
		maxPayload = DefaultMaxPayload
	}
	for _, check := range []func(*Message, int) error{
		checkNames, checkPayload, checkHeaders, checkTimes, checkAttempts,
	} {
		if err := check(&m, maxPayload); err != nil {
			return Message{}, err
		}
	}
	if m.ID.IsZero() {
		m.ID = NewID()
	}
	causation, err := causationOf(ctx)
	if err != nil {
		return Message{}, err
	}
	m.Headers = completeHeaders(m, causation)
	return m, checkTogether(m.Headers)
}

func checkNames(m *Message, _ int) error {
	if err := CheckTopic(m.Topic); err != nil {
		return err
	}
	if m.Key != "" {
		if err := checkText("Key", m.Key, MaxKeyBytes); err != nil {
			return err
		}
	}
	if m.DedupKey != "" {
		return checkText("DedupKey", m.DedupKey, MaxDedupKeyBytes)
	}
	return nil
}

func checkPayload(m *Message, limit int) error {
	if len(m.Payload) > limit {
		return fieldError("Payload", strconv.Itoa(len(m.Payload))+" bytes",
			fmt.Sprintf("at most %d bytes", limit))
	}
	return nil
}

func checkHeaders(m *Message, _ int) error {
	folded := make(map[string]string, len(m.Headers))
	for name, value := range m.Headers {
		if err := checkHeader(name, value); err != nil {
			return err
		}
		lower := strings.ToLower(name)
		if other, taken := folded[lower]; taken {
			return fieldError("Headers", name, fmt.Sprintf("differs from %q only in case", other))
		}
		folded[lower] = name
	}
	return checkContentType(m, folded[contentTypeHeader])
}

// checkTogether bounds the headers as they are stored, content type and chain of causes included.
func checkTogether(headers map[string]string) error {
	if len(headers) > MaxHeaders {
		return fieldError("Headers", strconv.Itoa(len(headers))+" headers", fmt.Sprintf("at most %d, with content-type and %s", MaxHeaders, causationHeader))
	}
	size := 0
	for name, value := range headers {
		size += len(name) + len(value)
	}
	if size > MaxHeaderBytes {
		return fieldError("Headers", strconv.Itoa(size)+" bytes",
			fmt.Sprintf("at most %d bytes together, with content-type and %s", MaxHeaderBytes, causationHeader))
	}
	return nil
}

func checkHeader(name, value string) error {
	if name == "" || len(name) > MaxHeaderNameLen || strings.ContainsFunc(name, isNotHeaderNameRune) {
		return fieldError("Headers", name, "a header name is 1 to 64 of the characters A-Z a-z 0-9 . _ -")
	}
	lower := strings.ToLower(name)
	if strings.HasPrefix(lower, "outbox-") || strings.HasPrefix(lower, "nats-") {
		return fieldError("Headers", name, "names that begin with Outbox- or Nats- are set by the relay; a chain of causes is given by WithCausation")
	}
	return checkText("Headers["+name+"]", value, MaxHeaderBytes)
}

func isNotHeaderNameRune(r rune) bool {
	return r >= utf8.RuneSelf || !isTokenByte(byte(r)) && r != '.'
}

// checkContentType refuses a content type that contradicts the header of that name.
func checkContentType(m *Message, headerName string) error {
	if m.ContentType == "" {
		return nil
	}
	if err := checkText("ContentType", m.ContentType, MaxHeaderBytes); err != nil {
		return err
	}
	if headerName != "" && m.Headers[headerName] != m.ContentType {
		return fieldError("ContentType", m.ContentType, fmt.Sprintf("the header %s says %q", headerName, m.Headers[headerName]))
	}
	return nil
}

// checkText accepts 1 to limit bytes (values of headers may be empty) of UTF-8 without control characters.
func checkText(field, s string, limit int) error {
	switch {
	case len(s) > limit:
		return fieldError(field, s, fmt.Sprintf("at most %d bytes", limit))
	case !utf8.ValidString(s):
		return fieldError(field, strings.ToValidUTF8(s, "?"), "must be valid UTF-8")
	case strings.ContainsFunc(s, unicode.IsControl):
		return fieldError(field, s, "must have no control characters")
	}
	return nil
}

func checkTimes(m *Message, _ int) error {
	switch {
	case m.Delay != 0 && !m.DeliverAt.IsZero():
		return fieldError("Delay", m.Delay.String(), "give Delay or DeliverAt, not both")
	case m.Delay < 0:
		return fieldError("Delay", m.Delay.String(), "must not be negative")
	case m.TTL != 0 && !m.ExpiresAt.IsZero():
		return fieldError("TTL", m.TTL.String(), "give TTL or ExpiresAt, not both")
	case m.TTL < 0:
		return fieldError("TTL", m.TTL.String(), "must not be negative")
	case m.BrokerTTL < 0:
		return fieldError("BrokerTTL", m.BrokerTTL.String(), "must not be negative")
	}
	return nil
}

func checkAttempts(m *Message, _ int) error {
	if m.MaxAttempts < 0 || m.MaxAttempts > Unlimited {
		return fieldError("MaxAttempts", strconv.Itoa(m.MaxAttempts), "zero for the rule's, 1 or more, or Unlimited")
	}
	return nil
}

// completeHeaders returns a copy of the headers with the content type and the chain of causes among them.
func completeHeaders(m Message, causation string) map[string]string {
	headers := make(map[string]string, len(m.Headers)+2)
	named := false
	for name, value := range m.Headers {
		headers[name] = value
		named = named || strings.EqualFold(name, contentTypeHeader)
	}
	if m.ContentType != "" && !named {
		headers[contentTypeHeader] = m.ContentType
	}
	if causation != "" {
		headers[causationHeader] = causation
	}
	return headers
}
