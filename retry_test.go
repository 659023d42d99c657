package outbox_test

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/outboxrelay/outbox"
)

// TestRetryDelay: the wait after attempt n lies between (1−jitter)·w and w, with w = min(base·2^(n−1), max), for
// every n without overflow.
func TestRetryDelay(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := outbox.RetryPolicy{
			Base:          time.Duration(rapid.Int64Range(int64(time.Millisecond), int64(time.Hour)).Draw(t, "base")),
			Jitter:        rapid.Float64Range(0.01, 1).Draw(t, "jitter"),
			DisableJitter: rapid.Bool().Draw(t, "exact"),
		}
		p.Max = p.Base + time.Duration(rapid.Int64Range(0, math.MaxInt64/2).Draw(t, "max"))
		n := rapid.IntRange(1, 1000).Draw(t, "n")
		random := rapid.Float64Range(0, math.Nextafter(1, 0)).Draw(t, "random")
		want := math.Min(float64(p.Base)*math.Pow(2, float64(n-1)), float64(p.Max))
		low, high := want*(1-p.Jitter), want
		if p.DisableJitter {
			low = want
		}
		const rounding = 1e-9
		got := float64(p.Delay(n, random))
		if got < low*(1-rounding)-1 || got > high*(1+rounding)+1 || got < 0 {
			t.Fatalf("%+v: attempt %d waits %v, want %v to %v", p, n, time.Duration(got), time.Duration(low), time.Duration(high))
		}
	})
}

// TestRetryDefaults: 1, 2, 4 … 256, 300 s, all of it random.
func TestRetryDefaults(t *testing.T) {
	var p outbox.RetryPolicy
	for n, want := range []time.Duration{0, 1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300} {
		if n == 0 {
			continue
		}
		if got := p.Delay(n, 0); got != want*time.Second {
			t.Errorf("attempt %d waits at most %v", n, got)
		}
		if got := p.Delay(n, math.Nextafter(1, 0)); got > time.Millisecond {
			t.Errorf("attempt %d waits at least %v", n, got)
		}
	}
	if got := p.Delay(math.MaxInt, 0); got != 5*time.Minute {
		t.Errorf("the last attempt waits %v", got)
	}
}

func TestHorizon(t *testing.T) {
	for attempts, want := range map[int]time.Duration{
		0: 0, 1: 0, 2: time.Second, 4: 7 * time.Second, 10: 511 * time.Second, 12: 1111 * time.Second,
		outbox.Unlimited: 100 * 365 * 24 * time.Hour,
	} {
		if got := (outbox.RetryPolicy{}).Horizon(attempts); got != want {
			t.Errorf("%d attempts: %v, want %v", attempts, got, want)
		}
	}
}
