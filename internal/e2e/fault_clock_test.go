package e2e

import (
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outboxrelay/outbox"
)

// step sets the database's clock, so far ahead of the machine's; what relays and the test itself go by is left alone.
func (c *cell) step(ahead time.Duration) {
	c.t.Helper()
	c.must(c.server.SetClock(ahead))
}

// stepForward sets the clock ahead by two leases, again and again. That ends all leases: messages in flight come again.
func stepForward(c *cell) {
	ended := 0
	for i := range again {
		c.awaitInFlight(c.victim())
		c.mayRepeat(len(c.fleet))
		before := c.relayIDs()
		c.step(time.Duration(i+1) * 2 * lease)
		c.disturb("the clock stepped forward")
		c.proceed()
		c.awaitRelays(len(c.fleet))
		for _, id := range c.relayIDs() {
			if !slices.Contains(before, id) {
				ended++
			}
		}
	}
	if ended == 0 {
		c.t.Error("the clock stepped, and no lease has ended")
	}
}

// relayIDs are the registered relays.
func (c *cell) relayIDs() []outbox.ID {
	c.t.Helper()
	rows, err := c.db.pool.Query(c.t.Context(), "select id from outbox.relay")
	c.must(err)
	ids, err := pgx.CollectRows(rows, pgx.RowTo[outbox.ID])
	c.must(err)
	return ids
}

// stepBack sets the clock back by many leases, which ends none of them. What was to be tried again before waits for that time.
func stepBack(c *cell) {
	c.awaitInFlight(c.victim())
	c.step(-30 * time.Second)
	c.awaitFree()
	c.hold()
	c.awaitFree()
	c.awaitProgress()
}

// stepBackOnTheDead sets the clock back when a relay has just been killed, whose lease then lies as far ahead, and later forward again.
func stepBackOnTheDead(c *cell) {
	m := c.victim()
	c.awaitInFlight(m)
	m.Kill()
	c.mayRepeat(1)
	c.step(-10 * time.Minute)
	c.awaitRelays(len(c.fleet) - 1)
	m.start()
	c.awaitFree()
	c.hold()
	c.awaitFree()
	c.stepForth()
}

// stepBackBeforeScheduled sets the clock back when messages are scheduled, and later forward again. Those wait; what is scheduled by the new
// clock comes at its time.
func stepBackBeforeScheduled(c *cell) {
	l := c.latecomers(nil)
	for i := range l.messages {
		l.messages[i].Delay = 10 * time.Second
	}
	tx, err := c.db.pool.Begin(c.t.Context())
	c.must(err)
	l.publish(c.t.Context(), tx)
	c.must(l.commit(c.t.Context(), tx))
	c.step(-time.Hour)
	c.awaitFree()
	c.hold()
	c.awaitFree()
	const far = `select count(*) from outbox.waiting where available_at > clock_timestamp() + interval '50 minutes'`
	if n := c.db.count(c.t.Context(), far); n < len(l.messages) {
		c.t.Errorf("%d messages wait for their time, want %d or more", n, len(l.messages))
	}
	const late = `select count(*) from outbox.waiting where attempts = 0 and available_at < clock_timestamp()`
	until(c.t, patience, "what is due has been tried", func() bool { return c.db.count(c.t.Context(), late) == 0 })
	c.stepForth()
}

// stepForth sets the clock right again, which ends all leases.
func (c *cell) stepForth() {
	c.t.Helper()
	c.mayRepeat(len(c.fleet))
	c.step(0)
	c.disturb("the clock stepped forward")
}

// awaitFree waits until everything has been tried that was there when it was called, but what is behind a message that waits for its time.
func (c *cell) awaitFree() {
	c.t.Helper()
	mark := c.db.count(c.t.Context(), lastSeq)
	until(c.t, patience, "what no other message holds has been tried", func() bool {
		c.unpark()
		return c.db.count(c.t.Context(), fmt.Sprintf(`select count(*) from outbox.message m where m.seq <= %d
			and not exists (select from outbox.waiting w where w.key = m.key and w.holds)`, mark)) == 0
	})
}
