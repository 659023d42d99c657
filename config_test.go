package outbox_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/outboxrelay/outbox"
	"github.com/outboxrelay/outbox/outboxtest"
)

// fields returns the fields of all *FieldErrors in an error.
func fields(err error) (names []string) {
	if refused, ok := err.(*outbox.FieldError); ok {
		return []string{refused.Field}
	}
	switch e := err.(type) {
	case interface{ Unwrap() []error }:
		for _, inner := range e.Unwrap() {
			names = append(names, fields(inner)...)
		}
	case interface{ Unwrap() error }:
		names = fields(e.Unwrap())
	}
	return names
}

// TestAllProblemsAtOnce: whatever is wrong with store, routes, handlers and configuration comes in one error.
func TestAllProblemsAtOnce(t *testing.T) {
	mux := outbox.NewMux()
	nop := func(context.Context, *outbox.Delivery) error { return nil }
	mux.Handle("a", nop)
	mux.Handle("a", nop)
	mux.Handle("a..b", nop)
	mux.Handle("b", nil)
	outbox.On(mux, outbox.NewTopic[int]("c.*"), func(context.Context, *outbox.Delivery, int) error { return nil })
	sink := &outboxtest.Recorder{}
	_, err := outbox.NewRelay(nil, []outbox.Route{
		{Name: "handlers", Topics: []string{"a", "other"}, Sink: mux},
		{Name: "Bad name", Topics: []string{"x"}, Sink: sink},
		{Name: "empty", Sink: sink, Slots: -1},
		{Name: "pattern", Topics: []string{"x", "x.>.y"}, Sink: sink, Slots: 5},
		{Name: "pattern", Topics: []string{"z"}, Sink: &outboxtest.Recorder{}, Slots: 6, BatchSize: 1001},
		{Name: "nosink", Topics: []string{"z"}},
	}, &outbox.Config{
		PollInterval: -1, Lease: time.Millisecond, DrainTimeout: 2 * time.Hour, HandlerTimeout: 25 * time.Hour,
		MaxAttempts: -1, Order: 9, Retry: outbox.RetryPolicy{Jitter: 2},
		Rules: []outbox.Rule{{}, {Topics: []string{"a"}, OnExpired: 3, Order: 9, Timeout: -1, MaxAttempts: -1, Retry: &outbox.RetryPolicy{Base: -1}}},
	})
	got := fields(err)
	slices.Sort(got)
	want := []string{
		"Config.DrainTimeout", "Config.HandlerTimeout", "Config.Lease", "Config.MaxAttempts", "Config.Order",
		"Config.PollInterval", "Config.Retry.Jitter", "Config.Rules[0].Topics", "Config.Rules[1].MaxAttempts",
		"Config.Rules[1].OnExpired", "Config.Rules[1].Order", "Config.Rules[1].Retry.Base", "Config.Rules[1].Timeout",
		"Mux.Handle", "Mux.Handle", "Mux.Handle", "On",
		"Routes[0].Topics[1]", "Routes[1].Name", "Routes[2].Slots", "Routes[2].Topics", "Routes[3].Topics[1]",
		"Routes[4].BatchSize", "Routes[4].Sink", "Routes[4].Slots", "Routes[5].Sink", "Store",
	}
	if !slices.Equal(got, want) {
		t.Errorf("fields refused:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestSharedSink(t *testing.T) {
	f := outbox.SinkFunc(func(context.Context, *outbox.Delivery) error { return nil })
	store := outboxtest.NewStore()
	for name, tc := range map[string]struct {
		second outbox.Sink
		ok     bool
	}{"none": {nil, true}, "a function again": {f, false}, "another": {&outboxtest.Recorder{}, false}} {
		_, err := outbox.NewRelay(store, []outbox.Route{
			{Name: "x", Topics: []string{"a"}, Sink: f}, {Name: "x", Topics: []string{"b"}, Sink: tc.second},
		}, nil)
		if (err == nil) != tc.ok {
			t.Errorf("%s: %v", name, err)
		}
	}
	same := &outboxtest.Recorder{}
	if _, err := outbox.NewRelay(store, []outbox.Route{
		{Name: "x", Topics: []string{"a"}, Sink: same}, {Name: "x", Topics: []string{"b"}, Sink: same},
	}, nil); err != nil {
		t.Error(err)
	}
}

func TestParseDuration(t *testing.T) {
	for s, want := range map[string]time.Duration{
		"1s": time.Second, "1.5s": 1500 * time.Millisecond, "2d": 48 * time.Hour, "1d12h": 36 * time.Hour, "0s": 0,
		"": -1, "0": -1, "5": -1, "1.5d": -1, "-1d": -1, "1d-1h": -1, "d": -1, "1h1d": -1, "1w": -1, "99999999d": -1,
	} {
		got, err := outbox.ParseDuration(s)
		if (err == nil) != (want >= 0) || err == nil && got != want {
			t.Errorf("ParseDuration(%q) = %v, %v", s, got, err)
		}
	}
}

func TestConfigFromEnv(t *testing.T) {
	for name, value := range map[string]string{
		"POLL_INTERVAL": "250ms", "LEASE": "1m", "DRAIN_TIMEOUT": "5s", "HANDLER_TIMEOUT": "2m", "MAX_ATTEMPTS": "unlimited",
		"RETRY_BASE": "2s", "RETRY_MAX": "1d", "RETRY_JITTER": "off", "ORDER": "none", "DISABLE_RELAY": "true",
		"DATABASE_URL": "postgres://", "SERVICE_HOST": "x", "PORT_5432_TCP": "x", "TEST_X": "y",
	} {
		t.Setenv("OUTBOX_"+name, value)
	}
	c, err := outbox.ConfigFromEnv("OUTBOX_")
	if err != nil {
		t.Fatal(err)
	}
	want := outbox.Config{PollInterval: 250 * time.Millisecond, Lease: time.Minute, DrainTimeout: 5 * time.Second,
		HandlerTimeout: 2 * time.Minute, MaxAttempts: outbox.Unlimited, Order: outbox.OrderNone, DisableRelay: true,
		Retry: outbox.RetryPolicy{Base: 2 * time.Second, Max: 24 * time.Hour, DisableJitter: true}}
	if c.PollInterval != want.PollInterval || c.Lease != want.Lease || c.DrainTimeout != want.DrainTimeout ||
		c.HandlerTimeout != want.HandlerTimeout || c.MaxAttempts != want.MaxAttempts || c.Order != want.Order ||
		c.DisableRelay != want.DisableRelay || c.Retry != want.Retry {
		t.Errorf("%+v", c)
	}
}

func TestConfigFromEnvRefuses(t *testing.T) {
	for name, tc := range map[string]struct{ value, says string }{
		"LEASE": {"30", "unit"}, "POLL_INTERVAL": {"2h", "1h0m0s"}, "MAX_ATTEMPTS": {"-1", "unlimited"}, "ORDER": {"fifo", "skip, block, park or none"},
		"DISABLE_RELAY": {"1", "true"}, "RETRY_JITTER": {"x", "number"}, "LAESE": {"30s", "OUTBOX_LEASE"},
		"POLL_INTERVALL": {"1s", "OUTBOX_POLL_INTERVAL"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("OUTBOX_"+name, tc.value)
			_, err := outbox.ConfigFromEnv("OUTBOX_")
			var refused *outbox.FieldError
			if !errors.As(err, &refused) || !strings.Contains(err.Error(), tc.says) {
				t.Errorf("error %v", err)
			}
		})
	}
}

// TestOrderNames: every order has the name that settings and rules use.
func TestOrderNames(t *testing.T) {
	for name, order := range map[string]outbox.Order{
		"skip": outbox.OrderSkip, "block": outbox.OrderBlock, "park": outbox.OrderPark, "none": outbox.OrderNone,
	} {
		t.Setenv("OUTBOX_ORDER", name)
		if c, err := outbox.ConfigFromEnv("OUTBOX_"); err != nil || c.Order != order || order.String() != name {
			t.Errorf("%s is %v (%v), error %v", name, c.Order, order, err)
		}
	}
}

// TestConfigSet: a zero is the default also as text, and what Set refuses it names as it was asked for.
func TestConfigSet(t *testing.T) {
	var c outbox.Config
	for name, text := range map[string]string{"max_attempts": "0", "lease": "0s", "retry_jitter": "0", "poll_interval": "2s"} {
		if err := c.Set(name, text); err != nil {
			t.Errorf("%s %s: %v", name, text, err)
		}
	}
	if c.MaxAttempts != 0 || c.Lease != 0 || c.Retry != (outbox.RetryPolicy{}) || c.PollInterval != 2*time.Second {
		t.Errorf("%+v", c)
	}
	for name, text := range map[string]string{"lease": "x", "nothing": "x"} {
		var refused *outbox.FieldError
		if err := c.Set(name, text); !errors.As(err, &refused) || refused.Field != name {
			t.Errorf("%s: %v", name, err)
		}
	}
}
