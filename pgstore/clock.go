package pgstore

import (
	"context"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
)

// clock notices that the database's clock was put back, from the times that heartbeats bring.
type clock struct {
	began time.Time

	mu      sync.Mutex
	known   bool
	offset  time.Duration // of the database's clock from the time since began, at least
	putBack bool
}

// clockSlack is how far a clock may go back that does no harm, such as by a failover to a server whose clock is a little behind.
const clockSlack = time.Second

// see takes over a time of the database's that was asked for so long ago at most.
func (c *clock) see(at time.Time, took time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	offset := at.Sub(c.began) - time.Since(c.began)
	if c.known && offset+took < c.offset-clockSlack {
		c.putBack = true
	}
	c.known, c.offset = true, offset
}

// take reports whether the clock was put back since the last call.
func (c *clock) take() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	was := c.putBack
	c.putBack = false
	return was
}

func (c *clock) putBackAgain() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.putBack = true
}

// followClock has retries wait no longer than they should from now on, when the clock was put back.
func (s *Store) followClock(ctx context.Context) error {
	if !s.clock.take() {
		return nil
	}
	var moved int
	err := s.run(ctx, s.transaction(call{s.sql.retryAhead, nil, func(rows pgx.Rows) error { return rows.Scan(&moved) }}))[0]
	if err != nil {
		s.clock.putBackAgain()
		return err
	}
	s.log.WarnContext(ctx, "the database's clock was put back: retries count from now on", "messages", moved)
	return nil
}
