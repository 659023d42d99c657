package e2e

import (
	"time"

	"github.com/outboxrelay/outbox/pgstore"
)

// fault is something that goes wrong and comes right again while messages are published and delivered. Its play does
// both, and fails the test when nothing went wrong.
type fault struct {
	name string
	// in tells whether it can be played at a place; nil: everywhere.
	in func(place) bool
	// orders: it is played under every order of keys.
	orders bool
	// exact: no relay loses anything by it, so no message may come twice.
	exact bool
	// needs is what the fault wants of the servers.
	needs need
	// briefly is the place at which every run of the tests plays it, empty: only the whole matrix does.
	briefly string
	// last: nothing else can be played afterwards.
	last bool
	play func(*cell)
}

// need is how a cell's servers differ.
type need int

const (
	nothing need = iota
	links        // proxies between all processes and servers
	standby      // a server of its own with a synchronous standby
	alone        // a server of its own
	pooler       // PgBouncer in transaction mode
	archive      // what has ended is kept
	clock        // a server of its own, whose clock can be set
)

// faults is the table. What every fault does is told by its function.
var faults = []fault{
	{name: "relay killed", orders: true, play: killRelays},
	{name: "relay suspended past its lease", orders: true, play: suspendRelay},

	{name: "work connections terminated", orders: true, briefly: "poll/JetStream/skip", play: func(c *cell) { c.terminate("work") }},
	{name: "listening connections terminated", exact: true, briefly: "poll/handler/skip", play: func(c *cell) { c.terminate("listen") }},
	{name: "replication connection terminated", exact: true, in: streams, briefly: "wal/JetStream/skip", play: func(c *cell) { c.terminate("replication") }},
	{name: "publisher's connections terminated", exact: true, play: func(c *cell) { c.terminate("publisher") }},

	{name: "database restarted, fast", play: restartFast},
	{name: "database restarted, immediate", orders: true, play: restartImmediate},
	{name: "database hangs past the lease", play: hangDatabase},
	{name: "failover to a standby", orders: true, needs: standby, last: true, briefly: "wal/handler/skip", play: failOver},
	{name: "restored from a backup", needs: alone, last: true, play: restore},

	{name: "database clock steps forward past the lease", orders: true, needs: clock, briefly: "poll/handler/skip", play: stepForward},
	{name: "database clock steps back half a minute", exact: true, needs: clock, play: stepBack},
	{name: "database clock steps back ten minutes, a relay killed", orders: true, needs: clock, briefly: "wal/handler/skip", play: stepBackOnTheDead},
	{name: "database clock steps back an hour, messages scheduled", needs: clock, play: stepBackBeforeScheduled},

	{name: "relays' database links cut", needs: links, play: func(c *cell) { c.cut(c.databaseLinks) }},
	{name: "a relay's database link half open", needs: links, briefly: "poll/JetStream/skip", play: halfOpenDatabase},
	{name: "relays' database links drip", needs: links, play: func(c *cell) { c.drip(c.databaseLinks) }},
	{name: "relays' database links late", exact: true, needs: links, play: func(c *cell) { c.late(c.databaseLinks) }},
	{name: "publisher's database link cut", exact: true, needs: links, play: func(c *cell) { c.cut(c.publisherLinks) }},
	{name: "publisher's database link half open", exact: true, needs: links, play: func(c *cell) { c.halfOpen(c.publisherLinks, c.publishingStands) }},
	{name: "publisher's database link drips", exact: true, needs: links, play: func(c *cell) { c.drip(c.publisherLinks) }},
	{name: "publisher's database link late", exact: true, needs: links, play: func(c *cell) { c.late(c.publisherLinks) }},
	{name: "relays' broker links cut", in: place.brokered, needs: links, play: func(c *cell) { c.cut(c.brokerLinks) }},
	{name: "relays' broker links half open", in: place.brokered, needs: links, play: func(c *cell) { c.halfOpen(c.brokerLinks, c.deliveryStands) }},
	{name: "relays' broker links drip", in: place.brokered, needs: links, play: func(c *cell) { c.drip(c.brokerLinks) }},
	{name: "relays' broker links late", exact: true, in: place.brokered, needs: links, play: func(c *cell) { c.late(c.brokerLinks) }},

	{name: "reader's transaction held", exact: true, play: holdReader},
	{name: "writer's transaction held", exact: true, play: holdWriter},
	{name: "publisher's transaction held", exact: true, play: holdPublisher},
	{name: "prepared transaction held", exact: true, briefly: "wal/handler/skip", play: holdPrepared},
	{name: "archive read for long", exact: true, needs: archive, play: readArchive},
	{name: "PgBouncer in between, a relay killed", needs: pooler, play: killRelays},
	{name: "PgBouncer killed and started again", needs: pooler, briefly: "poll/handler/skip", play: restartPooler},

	{name: "broker restarted", in: place.brokered, play: restartBroker},
	{name: "broker stopped", in: place.brokered, play: stopBroker},
	{name: "broker hangs", in: at(toRabbitMQ), play: hangBroker},
	{name: "stream deleted and recreated", in: at(toJetStream), play: recreateStream},
	{name: "memory alarm", in: at(toRabbitMQ), play: alarm},
}

func streams(p place) bool { return p.engine == pgstore.EngineWAL }

func at(destination string) func(place) bool {
	return func(p place) bool { return p.destination == destination }
}

const (
	// lease is the relays' own; faults that are to outlast it wait until the store says so.
	lease = 2 * time.Second
	// held is how long a fault lasts that has no end of its own.
	held = 3 * time.Second
	// again is how often a fault comes that takes no time.
	again = 4
)
