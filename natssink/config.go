package natssink

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/outboxrelay/outbox"
)

const (
	defaultSubject     = "{topic}"
	defaultAckTimeout  = 5 * time.Second
	defaultMaxInFlight = 4000
	maxInFlight        = 100_000
	maxReplicas        = 5
)

// Config sets up a Sink. The zero value is complete, except that naming the stream is wise.
type Config struct {
	// Stream is the stream that must store the messages. If it is named, a message that would end in another
	// stream is refused. Empty: whichever stream has the subject.
	Stream string
	// Subject is a template with {topic}, {key} and {header.NAME}. Default {topic}. A value with dots makes
	// several tokens. A message that does not make a valid subject is dead at once.
	Subject string
	// Topics are the patterns of the topics that come here, as in the routes. Preflight compares their subjects with
	// those of the stream. Default ">".
	Topics []string
	// AckTimeout is how long to wait for the stream's acknowledgement. Default 5 s, 10 ms to 1 min.
	AckTimeout time.Duration
	// MaxInFlight is how many messages may wait for their acknowledgement. Default 4,000, at most 100,000.
	MaxInFlight int
	// Pipeline sends the messages of a key one behind the other instead of waiting for each one's acknowledgement,
	// which makes a key with many messages much faster. The stream stores what comes by one connection in order. What a
	// failure may reorder: outbox.Pipeliner. Default off.
	Pipeline bool
	// RetryHorizon is how long after its first attempt a message may be sent again. Preflight warns when the
	// stream's duplicate window is shorter. Default: that of outbox's default retry policy and attempts.
	RetryHorizon time.Duration

	// Create makes Preflight create a stream that is missing, from the fields below. An existing stream is not
	// changed.
	Create bool
	// Subjects of the created stream. Default: those that Subject makes of Topics.
	Subjects []string
	// Replicas of the created stream. Default 1, at most 5.
	Replicas int
	// Storage of the created stream. Default file.
	Storage jetstream.StorageType
	// DuplicateWindow of the created stream. Default RetryHorizon.
	DuplicateWindow time.Duration

	// Logger receives what Preflight advises. Default slog.Default().
	Logger *slog.Logger
}

// withDefaults returns the complete configuration; cfg may be nil.
func (cfg *Config) withDefaults() Config {
	var c Config
	if cfg != nil {
		c = *cfg
	}
	const attempts = 10 // outbox.Config.MaxAttempts
	c.Subject = cmp.Or(c.Subject, defaultSubject)
	c.Topics = slices.Clone(c.Topics)
	if len(c.Topics) == 0 {
		c.Topics = []string{">"}
	}
	c.AckTimeout = cmp.Or(c.AckTimeout, defaultAckTimeout)
	c.MaxInFlight = cmp.Or(c.MaxInFlight, defaultMaxInFlight)
	c.RetryHorizon = cmp.Or(c.RetryHorizon, outbox.RetryPolicy{}.Horizon(attempts))
	c.Replicas = cmp.Or(c.Replicas, 1)
	c.DuplicateWindow = cmp.Or(c.DuplicateWindow, c.RetryHorizon)
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	return c
}

// check returns everything that is wrong with a complete configuration.
func (c *Config) check() error {
	_, err := parseSubject(c.Subject)
	errs := []error{
		err,
		checkRange("Config.AckTimeout", c.AckTimeout, 10*time.Millisecond, time.Minute),
		checkRange("Config.MaxInFlight", number(c.MaxInFlight), 1, maxInFlight),
		checkRange("Config.Replicas", number(c.Replicas), 1, maxReplicas),
		checkRange("Config.RetryHorizon", c.RetryHorizon, 0, 1<<62),
		checkRange("Config.DuplicateWindow", c.DuplicateWindow, 100*time.Millisecond, 1<<62),
		c.checkStream(),
	}
	for i, topic := range c.Topics {
		if e := outbox.CheckPattern(topic); e != nil {
			errs = append(errs, fieldError(fmt.Sprintf("Config.Topics[%d]", i), topic, e.Error()))
		}
	}
	return errors.Join(errs...)
}

func (c *Config) checkStream() error {
	if c.Stream == "" && c.Create {
		return fieldError("Config.Stream", "", "a stream that is to be created needs a name")
	}
	if s, err := parseSubject(c.Subject); err == nil && c.Create && slices.Contains(c.subjects(s), ">") && len(c.Subjects) == 0 {
		return fieldError("Config.Subjects", "", "a stream cannot have the subject >: name its subjects, or narrower Topics")
	}
	for _, r := range c.Stream {
		if r <= ' ' || r == 0x7f || r == '.' || r == '*' || r == '>' || r == '/' || r == '\\' {
			return fieldError("Config.Stream", c.Stream, "must have no space, dot, *, >, slash or control character")
		}
	}
	return nil
}

// subjects are the patterns of the subjects that the messages have.
func (c *Config) subjects(s subject) (patterns []string) {
	for _, topic := range c.Topics {
		if p := s.pattern(topic); !slices.Contains(patterns, p) {
			patterns = append(patterns, p)
		}
	}
	return patterns
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
