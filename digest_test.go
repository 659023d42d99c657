package outbox

import (
	"slices"
	"testing"
	"time"
)

func TestSettingsDigest(t *testing.T) {
	of := func(c Config) string {
		c = c.WithDefaults()
		return settingsDigest(&c)
	}
	same := of(Config{})
	if same == "" || of(Config{MaxAttempts: 10, Lease: time.Minute, PollInterval: time.Second}) != same {
		t.Error("defaults, or settings that decide nothing about a message, make a difference")
	}
	seen := []string{same}
	for _, c := range []Config{
		{MaxAttempts: 3}, {Order: OrderPark}, {Retry: RetryPolicy{Max: time.Hour}}, {HandlerTimeout: time.Second},
		{Rules: []Rule{{Topics: []string{"a"}}}}, {Rules: []Rule{{Topics: []string{"a"}, Retry: &RetryPolicy{Base: time.Minute}}}},
	} {
		if d := of(c); slices.Contains(seen, d) {
			t.Errorf("%+v makes no difference", c)
		} else {
			seen = append(seen, d)
		}
	}
}

func TestMixedSettings(t *testing.T) {
	on := func(live bool, settings string, destinations ...string) RelayStatus {
		r := RelayStatus{Live: live, Settings: settings}
		for _, d := range destinations {
			r.Lanes = append(r.Lanes, RelayLane{Destination: d})
		}
		return r
	}
	for name, c := range map[string]struct {
		relays []RelayStatus
		want   []string
	}{
		"the same":                  {[]RelayStatus{on(true, "a", "x"), on(true, "a", "x")}, nil},
		"of different destinations": {[]RelayStatus{on(true, "a", "x"), on(true, "b", "y")}, nil},
		"one has lapsed":            {[]RelayStatus{on(true, "a", "x"), on(false, "b", "x")}, nil},
		"two of one destination":    {[]RelayStatus{on(true, "a", "x", "y"), on(true, "b", "y"), on(true, "a", "y")}, []string{"y"}},
	} {
		s := Status{Relays: c.relays}
		if got := s.MixedSettings(); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
