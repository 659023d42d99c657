package e2e

import (
	"time"

	"github.com/outboxrelay/outbox/internal/devservices/pgdev"
	"github.com/outboxrelay/outbox/internal/history"
)

func restartFast(c *cell)      { c.restartDatabase(pgdev.Fast) }
func restartImmediate(c *cell) { c.restartDatabase(pgdev.Immediate) }

// restartDatabase stops the server with messages in flight, twice.
func (c *cell) restartDatabase(mode pgdev.Mode) {
	for range 2 {
		c.awaitInFlight(c.victim())
		c.mayRepeat(len(c.fleet))
		c.must(c.server.Stop(c.t.Context(), mode))
		c.disturb(string(mode))
		c.must(c.server.Start(c.t.Context()))
		c.proceed()
	}
}

// hangDatabase freezes the server for longer than the lease, and lets it go on.
func hangDatabase(c *cell) {
	c.disturb("paused")
	c.mayRepeat(len(c.fleet))
	c.must(c.server.Pause())
	c.hold()
	c.must(c.server.Resume())
}

// failOver crashes the server, and its synchronous standby takes over.
func failOver(c *cell) {
	c.awaitInFlight(c.victim())
	c.mayRepeat(len(c.fleet))
	c.must(c.server.Stop(c.t.Context(), pgdev.Immediate))
	c.disturb("failover")
	c.must(c.standby.Promote(c.t.Context()))
	c.awaitProgress()
	if c.db.count(c.t.Context(), "select inet_server_port()") != c.standby.Port() {
		c.t.Error("the database is not the one that was the standby")
	}
}

// restore crashes the server and sets it back to a backup of some seconds before. What was committed meanwhile is not
// in the database any more, and what was delivered meanwhile may come again: that is what a backup means. All that was
// committed before it is delivered, and relays that have seen more than the database has now go on.
func restore(c *cell) {
	began := history.Now()
	c.mustHave(c.server.Backup(c.t.Context(), "earlier"))
	c.hold()
	c.awaitInFlight(c.victim())
	c.must(c.server.Stop(c.t.Context(), pgdev.Immediate))
	c.disturb("restored")
	c.must(c.server.Restore(c.t.Context(), "earlier"))
	c.must(c.server.Start(c.t.Context()))
	c.forgotten = span{began, history.Now()}
	c.mayRepeat(len(c.fleet))
}

// span is a time of the history.
type span struct{ from, to int64 }

func (s span) has(at int64) bool { return s.from <= at && at <= s.to }

// hold lets the fault last.
func (c *cell) hold() {
	c.t.Helper()
	c.linger(held)
}

// linger lets messages go on for a while.
func (c *cell) linger(d time.Duration) {
	c.t.Helper()
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-c.t.Context().Done():
	}
}

// proceed waits until messages are delivered, and a little more, before the fault comes again.
func (c *cell) proceed() {
	c.t.Helper()
	c.awaitProgress()
	c.linger(time.Duration(200+c.random.IntN(600)) * time.Millisecond)
}
