package outbox

import (
	"context"
	"fmt"
	"time"
)

const (
	// checkTimeout bounds one Ping or Preflight.
	checkTimeout = 10 * time.Second
	// checkInterval is how often a destination that works is preflighted.
	checkInterval = 5 * time.Minute
)

// checker asks a lane's destination about itself, for the lane's loop.
type checker struct {
	lane      *lane
	pinger    Pinger
	preflight Preflighter

	session *session  // the last one that was checked
	asked   time.Time // when
	passed  time.Time // when the last success was
}

func newChecker(l *lane) checker {
	c := checker{lane: l}
	if _, ok := l.sink.(scoped); !ok {
		c.pinger, _ = l.sink.(Pinger)
	}
	c.preflight, _ = l.sink.(Preflighter)
	return c
}

// due: the destination is to be preflighted although nothing says that it is unavailable.
func (c *checker) due(s *session, now time.Time) bool {
	return c.preflight != nil && (c.session != s || now.Sub(c.asked) >= checkInterval)
}

// probe asks whether the destination is there again, and reports whether a message may find out.
func (c *checker) probe(s *session, now time.Time) bool {
	if c.pinger == nil && (c.preflight == nil || now.Sub(c.passed) < breakerRest.Base) {
		return true
	}
	return c.run(s)
}

// run preflights, and pings if the breaker is closed. What it finds goes to the breaker.
func (c *checker) run(s *session) bool {
	l := c.lane
	var err error
	if c.preflight != nil {
		err = c.call(s, "preflight", c.preflight.Preflight)
	}
	if err == nil && c.pinger != nil && l.breaker.trouble.Load() > 0 {
		err = c.call(s, "ping", c.pinger.Ping)
	}
	now := time.Now()
	if err != nil && s.waits.Err() != nil { // it says nothing: the relay stops
		return false
	}
	c.session, c.asked = s, now
	if err != nil {
		c.failed(err, now)
		return false
	}
	c.passed = now
	l.faultEnded("") // of those that have checks, the only scope
	if c.pinger != nil {
		l.breaker.checked(true, now)
	}
	return true
}

func (c *checker) failed(err error, now time.Time) {
	l := c.lane
	l.breakerChanged(l.breaker.checked(false, now), err.Error(), IsMisconfigured(err))
	l.r.firstClaim(l) // the relay is up, its destination is not
}

// call calls the sink, for no longer than the session claims and the time limit allows. A call that ignores
// its context is left behind, and its error says so.
func (c *checker) call(s *session, name string, ask func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(s.waits, checkTimeout)
	defer cancel()
	result := make(chan error, 1)
	go func() {
		var err error
		defer func() { result <- err }()
		defer recovered(&err)
		err = errGoexit
		err = ask(ctx)
	}()
	select {
	case err := <-result:
		return err
	case <-ctx.Done():
	}
	grace := time.NewTimer(cancelGrace)
	defer grace.Stop()
	select {
	case err := <-result:
		return err
	case <-grace.C:
		return fmt.Errorf("%s ignores its cancelled context", name)
	}
}
