package outbox_test

import (
	"sync"
	"time"
)

// turnedClock is a clock that a test can turn on.
type turnedClock struct {
	mu    sync.Mutex
	ahead time.Duration
}

func (c *turnedClock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Now().Add(c.ahead)
}

func (c *turnedClock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ahead += d
}
