package e2e

// restartBroker stops the broker and starts it again at once, twice.
func restartBroker(c *cell) {
	for range 2 {
		c.stopBroker()
		c.startBroker()
		c.proceed()
	}
}

// stopBroker keeps the broker away for a while.
func stopBroker(c *cell) {
	c.stopBroker()
	c.hold()
	c.startBroker()
}

func (c *cell) stopBroker() {
	c.t.Helper()
	c.mayRepeat(len(c.fleet))
	if c.nats != nil {
		c.nats.Stop()
		return
	}
	c.must(c.rabbit.Stop())
}

func (c *cell) startBroker() {
	c.t.Helper()
	if c.nats != nil {
		c.must(c.nats.Start())
		return
	}
	c.must(c.rabbit.Start(c.t.Context()))
}

// hangBroker stops the broker's process, and lets it go on.
func hangBroker(c *cell) {
	c.mayRepeat(len(c.fleet))
	c.must(c.rabbit.Pause())
	c.hold()
	c.must(c.rabbit.Resume())
}

// alarm makes the broker block its publishers for a while.
func alarm(c *cell) {
	c.mayRepeat(len(c.fleet))
	c.must(c.rabbit.Alarm(c.t.Context(), true))
	c.hold()
	if c.db.count(c.t.Context(), everything) == 0 {
		c.t.Error("nothing waits: there was no alarm")
	}
	c.must(c.rabbit.Alarm(c.t.Context(), false))
}

// recreateStream deletes the stream, whose messages and knowledge of duplicates go with it, and makes it anew.
func recreateStream(c *cell) {
	c.mayRepeat(len(c.fleet))
	s := c.target.(*streamTarget)
	s.remove(c.t)
	c.hold()
	if c.db.count(c.t.Context(), everything) == 0 {
		c.t.Error("nothing waits: the stream was there")
	}
	s.create(c.t)
}
