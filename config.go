package outbox

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"os"
	"strconv"
	"time"
)

// Bounds of the settings; NewRelay refuses what lies outside.
const (
	MinLease          = time.Second
	MaxLease          = 10 * time.Minute
	minPollInterval   = time.Millisecond
	maxPollInterval   = time.Hour
	maxDrainTimeout   = time.Hour
	minHandlerTimeout = time.Millisecond
	maxHandlerTimeout = 24 * time.Hour
	minSampleInterval = time.Second
	maxSampleInterval = time.Hour
)

// KeepForever keeps messages that have ended until somebody purges them.
const KeepForever time.Duration = math.MaxInt64

// Config sets up a Relay. The zero value is complete: every field that is zero has its default.
type Config struct {
	// PollInterval is the longest wait between two looks for messages when nothing wakes the relay.
	// Shorter finds unannounced messages sooner and asks an idle database more often. Default 1.5 s,
	// 1 ms to 1 h.
	PollInterval time.Duration
	// Lease is how long the relay's claims outlive its last heartbeat, which comes every third of it. Shorter
	// hands the messages of a dead relay over sooner; longer bears longer pauses of process and database. The store has
	// to answer a heartbeat within a third of it.
	// Default 30 s, 1 s to 10 min.
	Lease time.Duration
	// DrainTimeout is how long a stopping relay waits for running handlers before it cancels them. Keep it
	// some seconds below what the orchestrator allows. Default 20 s, at most 1 h.
	DrainTimeout time.Duration
	// HandlerTimeout is the time limit of one attempt. Default 1 min, 1 ms to 24 h.
	HandlerTimeout time.Duration
	// MaxAttempts ends retrying: the message is then dead, or under OrderBlock retried at the longest wait.
	// Default 10; Unlimited never ends it.
	MaxAttempts int
	// Retry spaces the attempts.
	Retry RetryPolicy
	// Order says what becomes of a key when its head fails. Default OrderSkip.
	Order Order
	// Rules override the settings above for some topics; the first rule that covers a topic decides.
	Rules []Rule
	// DisableRelay makes a replica that publishes only: Run waits for its context and delivers nothing.
	DisableRelay bool
	// Logger receives the relay's log. Default slog.Default(). Payloads are never logged.
	Logger *slog.Logger
	// Hooks observe the relay.
	Hooks Hooks
	// SampleInterval is how often one of the relays looks how the outbox is doing, for Hooks.Sampled. Default 15 s, 1 s to
	// 1 h.
	SampleInterval time.Duration
	// Host and Version name this process to operators and other relays. Default: the host's name; empty.
	Host, Version string
}

// Rule overrides settings for the topics that its patterns cover. Zero fields leave the Config's.
type Rule struct {
	// Topics are patterns; at least one.
	Topics []string
	// Order of these topics' keys.
	Order Order
	// MaxAttempts of these topics' messages, unless the message says otherwise.
	MaxAttempts int
	// Timeout of one attempt.
	Timeout time.Duration
	// Retry spaces the attempts.
	Retry *RetryPolicy
	// OnExpired says what becomes of a message whose life ended before it was delivered. Default ExpiredDrop.
	OnExpired OnExpired
}

// Order is what becomes of a key when its head, the oldest message that is not delivered, fails. Under all but
// OrderNone the messages of a key are delivered one after another, and later ones wait while the head is retried. The
// head's topic decides, not that of those behind it. Messages without a key wait for nobody: for them OrderBlock and
// OrderPark are OrderSkip. docs/order.md tells what each does in which case.
type Order uint8

const (
	// OrderSkip lets later messages go on once the head is dead.
	OrderSkip Order = iota + 1
	// OrderBlock retries the head until it is delivered, expires or is discarded by an operator: failing never
	// makes it dead. What would make another message dead (a permanent error, the last attempt, a payload that
	// cannot be read) is retried at the longest wait, RetryPolicy.Max.
	OrderBlock
	// OrderPark keeps the key held once the head is dead, until an operator redrives or discards it.
	OrderPark
	// OrderNone passes the key on and orders nothing.
	OrderNone
)

var orderNames = [...]string{"", "skip", "block", "park", "none"}

func (o Order) String() string { return orderNames[o] }

// OnExpired is what becomes of a message whose life ended before it was delivered.
type OnExpired uint8

const (
	// ExpiredDrop ends the message, counted as expired.
	ExpiredDrop OnExpired = iota + 1
	// ExpiredDead makes it a dead letter of class "expired".
	ExpiredDead
)

// WithDefaults returns a copy with every default filled in; cfg may be nil.
func (cfg *Config) WithDefaults() Config {
	var c Config
	if cfg != nil {
		c = *cfg
	}
	c.PollInterval = cmp.Or(c.PollInterval, 1500*time.Millisecond)
	c.Lease = cmp.Or(c.Lease, 30*time.Second)
	c.DrainTimeout = cmp.Or(c.DrainTimeout, 20*time.Second)
	c.HandlerTimeout = cmp.Or(c.HandlerTimeout, time.Minute)
	c.SampleInterval = cmp.Or(c.SampleInterval, 15*time.Second)
	c.MaxAttempts = cmp.Or(c.MaxAttempts, 10)
	c.Order = cmp.Or(c.Order, OrderSkip)
	c.Retry = c.Retry.withDefaults()
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	if c.Host == "" {
		c.Host, _ = os.Hostname() // a relay without a name is still a relay
	}
	return c
}

// check returns everything that is wrong with the configuration as given, defaults not yet filled in.
func (cfg *Config) check() error {
	if cfg == nil {
		return nil
	}
	errs := []error{
		checkDuration("Config.PollInterval", cfg.PollInterval, minPollInterval, maxPollInterval),
		checkDuration("Config.Lease", cfg.Lease, MinLease, MaxLease),
		checkDuration("Config.DrainTimeout", cfg.DrainTimeout, 1, maxDrainTimeout),
		checkDuration("Config.HandlerTimeout", cfg.HandlerTimeout, minHandlerTimeout, maxHandlerTimeout),
		checkDuration("Config.SampleInterval", cfg.SampleInterval, minSampleInterval, maxSampleInterval),
		checkMaxAttempts("Config.MaxAttempts", cfg.MaxAttempts),
		checkOrder("Config.Order", cfg.Order),
		cfg.Retry.check("Config.Retry"),
	}
	for i, rule := range cfg.Rules {
		errs = append(errs, rule.check(fmt.Sprintf("Config.Rules[%d]", i)))
	}
	return errors.Join(errs...)
}

func (r Rule) check(field string) error {
	errs := []error{
		checkPatterns(field+".Topics", r.Topics),
		checkOrder(field+".Order", r.Order),
		checkMaxAttempts(field+".MaxAttempts", r.MaxAttempts),
		checkDuration(field+".Timeout", r.Timeout, minHandlerTimeout, maxHandlerTimeout),
	}
	if r.Retry != nil {
		errs = append(errs, r.Retry.check(field+".Retry"))
	}
	if r.OnExpired > ExpiredDead {
		errs = append(errs, fieldError(field+".OnExpired", strconv.Itoa(int(r.OnExpired)), "ExpiredDrop or ExpiredDead"))
	}
	return errors.Join(errs...)
}

// checkPatterns accepts one or more valid patterns.
func checkPatterns(field string, patterns []string) error {
	if len(patterns) == 0 {
		return fieldError(field, "", "at least one topic or pattern")
	}
	var errs []error
	for i, pattern := range patterns {
		errs = append(errs, inField(fmt.Sprintf("%s[%d]", field, i), CheckPattern(pattern)))
	}
	return errors.Join(errs...)
}

// inField renames a *FieldError's field after the place where the value was given.
func inField(field string, err error) error {
	var e *FieldError
	if !errors.As(err, &e) {
		return err
	}
	return &FieldError{Field: field, Value: e.Value, Bound: e.Bound}
}

// checkDuration accepts zero, which is the default, and low to high.
func checkDuration(field string, d, low, high time.Duration) error {
	if d == 0 || d >= low && d <= high {
		return nil
	}
	return fieldError(field, d.String(), fmt.Sprintf("%v to %v, or zero for the default", low, high))
}

func checkMaxAttempts(field string, n int) error {
	if n >= 0 && n <= Unlimited {
		return nil
	}
	return fieldError(field, strconv.Itoa(n), "1 or more, Unlimited, or zero for the default")
}

func checkOrder(field string, o Order) error {
	if o <= OrderNone {
		return nil
	}
	return fieldError(field, strconv.Itoa(int(o)), "OrderSkip, OrderBlock, OrderPark, OrderNone, or zero for the default")
}
