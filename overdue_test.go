package outbox

import (
	"testing"
	"time"
)

// TestOverdue: a heartbeat that is late by as much as a slow database makes it is no sign, one that is missing is.
func TestOverdue(t *testing.T) {
	for name, c := range map[string]struct {
		seen, left time.Duration
		lapsed     bool
		want       time.Duration
	}{
		"in time":           {seen: 9 * time.Second, left: 21 * time.Second},
		"a little late":     {seen: 14900 * time.Millisecond, left: 15100 * time.Millisecond},
		"late":              {seen: 15 * time.Second, left: 15 * time.Second, want: 5 * time.Second},
		"about to lapse":    {seen: 29 * time.Second, left: time.Second, want: 19 * time.Second},
		"lapsed":            {seen: 31 * time.Second, left: -time.Second, lapsed: true},
		"a short lease":     {seen: 900 * time.Millisecond, left: 100 * time.Millisecond},
		"two seconds":       {seen: 1600 * time.Millisecond, left: 400 * time.Millisecond},
		"two seconds, late": {seen: 1700 * time.Millisecond, left: 300 * time.Millisecond, want: 1700*time.Millisecond - 2*time.Second/3},
		"nothing known":     {},
	} {
		r := RelayStatus{Live: !c.lapsed, Seen: c.seen, LeaseLeft: c.left}
		if got := r.Overdue(); got != c.want {
			t.Errorf("%s: overdue for %v, want %v", name, got, c.want)
		}
	}
}
