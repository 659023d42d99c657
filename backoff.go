package outbox

import (
	"math/rand/v2"
	"time"
)

// backoff spaces the repetitions of a failing call.
type backoff struct {
	policy   RetryPolicy
	failures int
}

// storeBackoff repeats calls of the store: after half to all of 100 ms, doubling to 5 s.
func storeBackoff() backoff {
	return backoff{policy: RetryPolicy{Base: 100 * time.Millisecond, Max: 5 * time.Second, Jitter: 0.5}}
}

func (b *backoff) next() time.Duration {
	b.failures++
	return b.policy.next(b.failures)
}

func (b *backoff) reset() { b.failures = 0 }

// jittered takes up to a tenth away, so that relays that started together do not poll together.
func jittered(d time.Duration) time.Duration {
	return d - time.Duration(rand.Float64()*float64(d)/10)
}
