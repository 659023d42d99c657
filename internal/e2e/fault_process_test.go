package e2e

import (
	"strconv"

	"github.com/outboxrelay/outbox/internal/history"
)

// killRelays kills relays with messages in flight; others come in their places.
func killRelays(c *cell) {
	for range again {
		m := c.victim()
		c.awaitInFlight(m)
		m.Kill()
		c.mayRepeat(1)
		m.start()
		c.proceed()
	}
}

// suspendRelay stops a relay until another has its messages, and lets it go on.
func suspendRelay(c *cell) {
	m := c.victim()
	c.awaitInFlight(m)
	m.Suspend()
	c.mayRepeat(1)
	c.awaitRelays(len(c.fleet) - 1)
	c.awaitProgress()
	m.Resume()
	c.awaitRelays(len(c.fleet))
}

// restartPooler kills the pooler, with all connections through it.
func restartPooler(c *cell) {
	for range again {
		c.awaitInFlight(c.victim())
		c.mayRepeat(len(c.fleet))
		c.must(c.pooler.Restart(c.t.Context()))
		c.proceed()
	}
}

// connections are the conditions by which the server's list of activities tells them apart. A relay's work is done by its
// pool and its heartbeats.
var connections = map[string]string{
	"work":        `application_name = 'relay' and backend_type = 'client backend' and query not ilike 'listen%' and query <> '-- ping'`,
	"listen":      `application_name = 'relay' and backend_type = 'client backend' and (query ilike 'listen%' or query = '-- ping')`,
	"replication": `application_name = 'relay' and backend_type = 'walsender'`,
	"publisher":   `application_name = 'publisher'`,
}

// terminate ends all connections of a kind, again and again.
func (c *cell) terminate(kind string) {
	query := `select count(pg_terminate_backend(pid)) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid() and ` +
		connections[kind]
	for range again {
		until(c.t, patience, "there are connections of the kind "+kind, func() bool { return c.db.count(c.t.Context(), query) > 0 })
		if kind == "work" {
			c.mayRepeat(len(c.fleet))
		}
		c.proceed()
	}
}

// awaitInFlight waits until a relay holds messages.
func (c *cell) awaitInFlight(m *member) {
	c.t.Helper()
	query := `select count(*) from outbox.claim c join outbox.relay r on r.id = c.relay where r.pid = ` + strconv.Itoa(m.PID())
	until(c.t, patience, "a relay has messages in flight", func() bool {
		c.unpark()
		return c.db.count(c.t.Context(), query) > 0
	})
}

// awaitRelays waits until so many relays are registered.
func (c *cell) awaitRelays(n int) {
	c.t.Helper()
	until(c.t, patience, strconv.Itoa(n)+" relays are registered", func() bool {
		c.unpark()
		return c.db.count(c.t.Context(), "select count(*) from outbox.relay") == n
	})
}

// disturb writes down that leases and claims until now may be over: of a server that crashes, when it is down, because it may forget
// the claims that it made last.
func (c *cell) disturb(how string) {
	c.t.Helper()
	c.tell(history.Event{Kind: history.Disturbed, Detail: how})
}
