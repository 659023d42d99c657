package pgstore

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
)

// clock notices that the database's clock was put back, from the times that heartbeats bring.
type clock struct {
	putBack atomic.Bool

	mu   sync.Mutex
	at   time.Time // the database's, of the last heartbeat …
	seen time.Time // … whose answer came then; zero: there was none
}

// clockSlack is how far a clock may go back that does no harm, such as by a failover to a server whose clock is a little behind.
const clockSlack = time.Second

// see takes over a time of the database's that was asked for so long ago at most.
func (c *clock) see(at time.Time, took time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.seen.IsZero() && at.Add(took+clockSlack).Before(c.at.Add(time.Since(c.seen))) {
		c.putBack.Store(true)
	}
	c.at, c.seen = at, time.Now()
}

// followClock has retries wait no longer than they should from now on, when the clock was put back.
func (s *Store) followClock(ctx context.Context) error {
	if !s.clock.putBack.CompareAndSwap(true, false) {
		return nil
	}
	var moved int
	err := s.run(ctx, s.transaction(call{s.sql.retryAhead, nil, func(rows pgx.Rows) error { return rows.Scan(&moved) }}))[0]
	if err != nil {
		s.clock.putBack.Store(true)
		return err
	}
	s.log.WarnContext(ctx, "the database's clock was put back: retries count from now on", "messages", moved)
	return nil
}
