package e2e

import (
	"fmt"
	"time"

	"github.com/outboxrelay/outbox/internal/faultnet"
)

func (c *cell) databaseLinks() (all []*faultnet.Proxy) {
	for _, m := range c.fleet {
		all = append(all, m.database)
	}
	return all
}

func (c *cell) brokerLinks() (all []*faultnet.Proxy) {
	for _, m := range c.fleet {
		all = append(all, m.broker)
	}
	return all
}

func (c *cell) publisherLinks() []*faultnet.Proxy { return []*faultnet.Proxy{c.publishing} }

func (c *cell) onEach(links func() []*faultnet.Proxy, do func(*faultnet.Proxy)) {
	for _, l := range links() {
		do(l)
	}
}

// cut closes all connections, again and again.
func (c *cell) cut(links func() []*faultnet.Proxy) {
	for range again {
		c.mayRepeat(len(c.fleet))
		c.onEach(links, func(l *faultnet.Proxy) {
			until(c.t, patience, "there are connections to cut", func() bool { return l.Cut() > 0 })
		})
		c.proceed()
	}
}

// halfOpen carries nothing for a while; nobody is told.
func (c *cell) halfOpen(links func() []*faultnet.Proxy, stands func() bool) {
	c.mayRepeat(len(c.fleet))
	c.onEach(links, (*faultnet.Proxy).Freeze)
	c.hold()
	if !stands() {
		c.t.Error("the links were half open, and nothing stood still")
	}
	c.onEach(links, (*faultnet.Proxy).Thaw)
}

// deliveryStands: what was there half a second ago is still there.
func (c *cell) deliveryStands() bool {
	mark := c.db.count(c.t.Context(), lastSeq)
	c.linger(500 * time.Millisecond)
	return c.db.count(c.t.Context(), fmt.Sprintf("select count(*) from outbox.message where seq <= %d", mark)) > 0
}

// publishingStands: nothing was published for half a second.
func (c *cell) publishingStands() bool {
	mark := c.db.count(c.t.Context(), lastSeq)
	c.linger(500 * time.Millisecond)
	return c.db.count(c.t.Context(), lastSeq) == mark
}

// halfOpenDatabase carries nothing between the database and one relay, until another has that one's messages.
func halfOpenDatabase(c *cell) {
	m := c.victim()
	c.awaitInFlight(m)
	c.mayRepeat(1)
	m.database.Freeze()
	c.awaitRelays(len(c.fleet) - 1)
	c.awaitProgress()
	m.database.Thaw()
	c.awaitRelays(len(c.fleet))
}

// drip carries 32 kB a second, which is less than the traffic.
func (c *cell) drip(links func() []*faultnet.Proxy) {
	c.mayRepeat(len(c.fleet))
	c.onEach(links, func(l *faultnet.Proxy) { l.Drip(2 * time.Millisecond) })
	c.hold()
	c.onEach(links, func(l *faultnet.Proxy) { l.Drip(0) })
}

// late lets every answer take a tenth of a second more.
func (c *cell) late(links func() []*faultnet.Proxy) {
	c.onEach(links, func(l *faultnet.Proxy) { l.Delay(50 * time.Millisecond) })
	c.hold()
	c.awaitProgress()
	c.onEach(links, func(l *faultnet.Proxy) { l.Delay(0) })
}
