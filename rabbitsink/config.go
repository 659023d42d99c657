package rabbitsink

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/outboxrelay/outbox"
	"github.com/outboxrelay/outbox/internal/template"
)

const (
	defaultExchange       = "outbox"
	defaultRoutingKey     = "{topic}"
	defaultConfirmTimeout = 5 * time.Second
	defaultConnectTimeout = 10 * time.Second
	defaultHeartbeat      = 10 * time.Second
	defaultMaxInFlight    = 2000
	maxInFlight           = 100_000
	maxShort              = 255 // bytes of AMQP's short strings
	// maxExpiration is the longest that RabbitMQ takes, 2^32-1 ms: 49 days.
	maxExpiration = (1<<32 - 1) * time.Millisecond
)

// Config sets up a Sink. The zero value is complete.
type Config struct {
	// Exchange that the messages go to. Default "outbox".
	Exchange string
	// Passive only checks that the exchange exists. Otherwise it is declared as a durable topic exchange, for which
	// the user needs the permission to configure it; one that exists with another type or durability is refused.
	// With Passive it may have any type.
	Passive bool
	// RoutingKey is a template with {topic}, {key} and {header.NAME}. Default {topic}. A message that makes more than
	// 255 bytes is dead at once.
	RoutingKey string
	// DisableMandatory counts a message as delivered that RabbitMQ has dropped because no queue is bound for its
	// routing key. Otherwise that is a failed attempt.
	DisableMandatory bool
	// TrackingIDs adds the header x-outbox-tracking-ids: the ids of Outbox-Causation as a JSON list.
	TrackingIDs bool
	// ConfirmTimeout is how long to wait for RabbitMQ's confirmation, and for its answer to anything else. Default
	// 5 s, 10 ms to 1 min.
	ConfirmTimeout time.Duration
	// MaxInFlight is how many messages may wait for their confirmation. Default 2,000, at most 100,000.
	MaxInFlight int

	// URLFunc, if given, is asked for the URL at each connect, in place of the one given to Open: its password may
	// have changed.
	URLFunc func(ctx context.Context) (string, error)
	// TLS is used with amqps:// URLs. Default: what the URL's cacertfile, certfile, keyfile and
	// server_name_indication say, whose files are read at each connect.
	TLS *tls.Config
	// ConnectTimeout bounds a connect with all that belongs to it. Default 10 s, 10 ms to 1 min.
	ConnectTimeout time.Duration
	// Heartbeat is how often each side shows that it lives; a connection that is silent for three is lost. Default
	// 10 s, 1 s to 1 min. A heartbeat in the URL wins.
	Heartbeat time.Duration
	// Name of the connection, as RabbitMQ lists it. Default "outbox".
	Name string

	// Logger receives connects and disconnects, at debug. Default slog.Default().
	Logger *slog.Logger
}

// withDefaults returns the complete configuration; cfg may be nil.
func (cfg *Config) withDefaults() Config {
	var c Config
	if cfg != nil {
		c = *cfg
	}
	c.Exchange = cmp.Or(c.Exchange, defaultExchange)
	c.RoutingKey = cmp.Or(c.RoutingKey, defaultRoutingKey)
	c.ConfirmTimeout = cmp.Or(c.ConfirmTimeout, defaultConfirmTimeout)
	c.ConnectTimeout = cmp.Or(c.ConnectTimeout, defaultConnectTimeout)
	c.Heartbeat = cmp.Or(c.Heartbeat, defaultHeartbeat)
	c.MaxInFlight = cmp.Or(c.MaxInFlight, defaultMaxInFlight)
	c.Name = cmp.Or(c.Name, "outbox")
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	return c
}

// Check returns everything that is wrong with the configuration, without connecting; cfg may be nil.
func (cfg *Config) Check() error {
	c := cfg.withDefaults()
	return errors.Join(
		checkExchange(c.Exchange),
		checkRoutingKey(c.RoutingKey),
		checkRange("Config.ConfirmTimeout", c.ConfirmTimeout, 10*time.Millisecond, time.Minute),
		checkRange("Config.ConnectTimeout", c.ConnectTimeout, 10*time.Millisecond, time.Minute),
		checkRange("Config.Heartbeat", c.Heartbeat, time.Second, time.Minute),
		checkRange("Config.MaxInFlight", number(c.MaxInFlight), 1, maxInFlight),
	)
}

func checkExchange(name string) error {
	if len(name) > maxShort || !utf8.ValidString(name) || strings.ContainsFunc(name, unicode.IsControl) {
		return fieldError("Config.Exchange", name, "must be at most 255 bytes of UTF-8 without control characters")
	}
	return nil
}

func checkRoutingKey(text string) error {
	t, err := template.Parse(text)
	if err != nil {
		return fieldError("Config.RoutingKey", text, "must be text with {topic}, {key} and {header.NAME}: "+err.Error())
	}
	if literal := t.Join(func(template.Part) string { return "" }); len(literal) > maxShort {
		return fieldError("Config.RoutingKey", text, "must leave room in 255 bytes")
	}
	return nil
}

// number is an int that prints as one.
type number int

func (n number) String() string { return strconv.Itoa(int(n)) }

func checkRange[T interface {
	~int | ~int64
	fmt.Stringer
}](field string, value, least, most T) error {
	if value < least || value > most {
		return fieldError(field, value.String(), fmt.Sprintf("%v to %v", least, most))
	}
	return nil
}

func fieldError(field, value, bound string) error {
	return &outbox.FieldError{Field: field, Value: value, Bound: bound}
}
