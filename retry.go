package outbox

import (
	"math/rand/v2"
	"strconv"
	"time"
)

// RetryPolicy spaces the attempts of a message: after failed attempt n a wait of Base·2^(n−1), at most Max,
// of which a random part may be taken away.
type RetryPolicy struct {
	// Base is the wait after the first failure. Default 1 s.
	Base time.Duration
	// Max caps the wait. Default 5 min.
	Max time.Duration
	// Jitter is the share of the wait that is random, above 0 to 1. Default 1: anything from nothing to the
	// full wait, so that messages that failed together come back apart.
	Jitter float64
	// DisableJitter waits exactly.
	DisableJitter bool
}

// Delay returns the wait after failed attempt n, counted from 1, with a random number in [0, 1).
func (p RetryPolicy) Delay(n int, random float64) time.Duration {
	p = p.withDefaults()
	wait := p.Max
	if shift := max(n, 1) - 1; shift < 63 && p.Base <= p.Max>>shift {
		wait = p.Base << shift
	}
	if p.DisableJitter {
		return wait
	}
	return wait - time.Duration(p.Jitter*random*float64(wait))
}

// Horizon returns the longest time between the first and the last of so many attempts that the waits take
// together, at most 100 years.
func (p RetryPolicy) Horizon(attempts int) (total time.Duration) {
	const most = 100 * 365 * 24 * time.Hour
	for n := 1; n < attempts && total < most; n++ {
		total += p.Delay(n, 0)
	}
	return min(total, most)
}

func (p RetryPolicy) next(n int) time.Duration { return p.Delay(n, rand.Float64()) }

func (p RetryPolicy) withDefaults() RetryPolicy {
	if p.Base == 0 {
		p.Base = time.Second
	}
	if p.Max == 0 {
		p.Max = max(5*time.Minute, p.Base)
	}
	if p.Jitter == 0 {
		p.Jitter = 1
	}
	return p
}

// check returns what is wrong with the policy, under the given field name.
func (p RetryPolicy) check(field string) error {
	d := p.withDefaults()
	switch {
	case p.Base < 0 || p.Base != 0 && p.Base < time.Millisecond:
		return fieldError(field+".Base", p.Base.String(), "at least 1ms")
	case d.Max < d.Base:
		return fieldError(field+".Max", p.Max.String(), "at least Base, "+d.Base.String())
	case !(d.Jitter > 0 && d.Jitter <= 1):
		return fieldError(field+".Jitter", strconv.FormatFloat(p.Jitter, 'g', -1, 64), "above 0 and at most 1; DisableJitter for none")
	}
	return nil
}
