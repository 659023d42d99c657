package e2e

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outboxrelay/outbox"
	"github.com/outboxrelay/outbox/internal/crashtest"
	"github.com/outboxrelay/outbox/internal/devservices"
	"github.com/outboxrelay/outbox/internal/devservices/natsdev"
	"github.com/outboxrelay/outbox/internal/devservices/pgbouncerdev"
	"github.com/outboxrelay/outbox/internal/devservices/pgdev"
	"github.com/outboxrelay/outbox/internal/devservices/pgtest"
	"github.com/outboxrelay/outbox/internal/devservices/rabbitdev"
	"github.com/outboxrelay/outbox/internal/faultnet"
	"github.com/outboxrelay/outbox/internal/history"
	"github.com/outboxrelay/outbox/pgstore"
)

// site has the servers that the cells of one destination share, one after the other.
type site struct {
	postgres *pgdev.Server
	nats     *natsdev.Server
	rabbit   *rabbitdev.Server
}

func newSite(t *testing.T, destination string) *site {
	t.Helper()
	s := &site{postgres: pgtest.Server(t, pgdev.Config{})}
	switch destination {
	case toJetStream:
		s.nats = newNATS(t)
	case toRabbitMQ:
		s.rabbit = newRabbit(t)
	}
	return s
}

// cell is a fault that is played at a place: a publisher, a fleet of two relays, the servers between them, and what is
// known of all of it.
type cell struct {
	t *testing.T
	row
	*site
	random *rand.Rand
	h      *crashtest.Harness

	server     *pgdev.Server
	standby    *pgdev.Server // nil: there is none
	direct     string        // the database's URL, as the test itself uses it
	pooler     *pgbouncerdev.Server
	pooled     string // the database's URL through it; empty: there is none
	db         *database
	operator   *pgstore.Store  // nil: none was needed yet
	target     target          // nil: the handler
	publishing *faultnet.Proxy // between publisher and database; nil: no links
	plan       plan
	publisher  *crashtest.Process
	fleet      []*member
	engines    []string // of the fleet; nil: the place's
	survivor   bool     // the first relay is never the victim
	watched    bool     // relays serve their metrics

	repeats   int  // duplicates that the faults so far allow
	forgotten span // what was committed then may be gone
}

const (
	slots    = 100
	patience = time.Minute
)

func newCell(t *testing.T, s *site, r row, seed uint64) *cell {
	t.Helper()
	c := &cell{t: t, row: r, site: s, random: rand.New(rand.NewPCG(seed, 1)), h: crashtest.New(t), server: s.postgres}
	c.openDatabase()
	c.plan = plan{Engine: r.engine, Seed: seed, Messages: 1 << 30, Keys: 50, Defer: 50, Pause: 60 * time.Millisecond,
		Lease: lease, Order: r.order, Slots: slots, FailEvery: 20, Work: 2 * time.Millisecond}
	if r.needs == archive {
		c.plan.Keep = 24 * time.Hour
	}
	if r.order == "block" || r.order == "park" {
		c.plan.DoomEvery = 97
	}
	if r.brokered() {
		c.target = c.newTarget()
	}
	return c
}

// runAll runs the cell from its beginning to its end.
func (c *cell) runAll() (measured, error) {
	c.start()
	c.linger(time.Second)
	c.play(c)
	c.awaitProgress()
	c.linger(time.Second)
	c.stop()
	return c.judge()
}

// openDatabase makes the database, on the server that the fault needs.
func (c *cell) openDatabase() {
	c.t.Helper()
	if c.needs == standby || c.needs == alone || c.needs == clock {
		c.server = pgtest.Server(c.t, pgdev.Config{SetClock: c.needs == clock})
	}
	name, err := c.server.Cluster().CreateFrom(c.t.Context(), "migrated", migrate)
	c.must(err)
	c.direct = c.server.URL(name)
	if c.server == c.postgres {
		c.t.Cleanup(func() {
			if err := c.server.Cluster().Drop(context.Background(), name); err != nil {
				c.t.Error(err)
			}
		})
	}
	switch c.needs {
	case standby:
		c.openStandby(name)
	case pooler:
		c.openPooler(name)
	}
	c.db = openDatabase(c.t, c.direct)
}

func (c *cell) openStandby(name string) {
	c.t.Helper()
	var err error
	c.standby, err = c.server.Standby(c.t.Context())
	c.mustHave(err)
	c.t.Cleanup(func() {
		if err := c.standby.Close(); err != nil {
			c.t.Error(err)
		}
	})
	db := openDatabase(c.t, c.direct)
	db.exec(c.t, "alter system set synchronous_standby_names = '*'")
	db.exec(c.t, "select pg_reload_conf()")
	until(c.t, patience, "the server waits for its standby", func() bool {
		return db.count(c.t.Context(), "select count(*) from pg_stat_replication where sync_state = 'sync'") == 1
	})
	c.direct = fmt.Sprintf("postgres://postgres@127.0.0.1:%d,127.0.0.1:%d/%s?sslmode=disable&target_session_attrs=read-write",
		c.server.Port(), c.standby.Port(), name)
}

func (c *cell) openPooler(name string) {
	c.t.Helper()
	p, err := pgbouncerdev.Start(c.t.Context(), c.direct, pgbouncerdev.Config{})
	c.mustHave(err)
	c.t.Cleanup(func() {
		if err := p.Close(); err != nil {
			c.t.Error(err)
		}
	})
	c.pooler, c.pooled = p, p.URL(name)+"&default_query_exec_mode=exec"
}

// start starts two relays and the publisher, and waits until messages go from the one to the other.
func (c *cell) start() {
	c.t.Helper()
	if c.engines == nil {
		c.engines = []string{c.engine.String(), c.engine.String()}
	}
	for i := range c.engines {
		c.fleet = append(c.fleet, c.newMember(i))
	}
	for _, m := range c.fleet {
		m.start()
	}
	if streams(c.place) {
		until(c.t, patience, "a relay follows the stream", func() bool { return c.db.count(c.t.Context(), following) == 1 })
	}
	c.publish()
}

// publish starts a publisher.
func (c *cell) publish() {
	c.t.Helper()
	p := c.plan
	p.URL = named(c.url(), "publisher")
	if c.needs == links && c.publishing == nil {
		c.publishing = c.link(fmt.Sprintf("127.0.0.1:%d", c.server.Port()))
	}
	if c.publishing != nil {
		p.URL = through(p.URL, c.server, c.publishing)
	}
	c.publisher = c.h.Start("publisher", crashtest.Options{Env: p.env()})
	before := c.db.count(c.t.Context(), lastSeq)
	until(c.t, patience, "messages are published", func() bool { return c.db.count(c.t.Context(), lastSeq) > before+20 })
	c.awaitProgress()
}

// url is what publisher and relays use, where no link is in between.
func (c *cell) url() string {
	if c.pooled != "" {
		return c.pooled
	}
	return c.direct
}

const lastSeq = `select last_value from outbox.seq`

// awaitProgress waits until everything has been tried that was there when it was called.
func (c *cell) awaitProgress() {
	c.t.Helper()
	mark := -1
	until(c.t, patience, "what is there now has been tried", func() bool {
		c.unpark()
		if mark < 0 {
			mark = c.db.count(c.t.Context(), lastSeq)
			return false
		}
		return c.db.count(c.t.Context(), fmt.Sprintf("select count(*) from outbox.message where seq <= %d", mark)) == 0
	})
}

// unpark redrives what is dead and holds its key. What fails, because the database was away, is left for the next time.
func (c *cell) unpark() {
	c.t.Helper()
	if c.order != "park" {
		return
	}
	if c.operator == nil {
		c.operator = newOperator(c.t, c.db)
	}
	for _, id := range c.parked() {
		since := history.Now()
		report, err := c.operator.Redrive(c.t.Context(), outbox.Change{Filter: outbox.Filter{IDs: []outbox.ID{id}}, Reason: "matrix"})
		if err != nil || report.Changed != 1 {
			return
		}
		c.tell(history.Event{Kind: history.Redriven, Message: id.String(), Since: since})
	}
}

func (c *cell) parked() []outbox.ID {
	rows, err := c.db.pool.Query(c.t.Context(), parkedIDs)
	if err != nil {
		return nil
	}
	ids, err := pgx.CollectRows(rows, pgx.RowTo[outbox.ID])
	if err != nil {
		return nil
	}
	return ids
}

// stop ends publishing, waits until everything is delivered, and ends the relays.
func (c *cell) stop() {
	c.t.Helper()
	c.drain()
	for _, m := range c.fleet {
		m.Terminate()
	}
}

func (c *cell) drain() {
	c.t.Helper()
	c.publisher.Terminate()
	until(c.t, patience, "everything was delivered", func() bool {
		c.unpark()
		return c.db.count(c.t.Context(), everything) == 0 && c.db.count(c.t.Context(), parked) == 0
	})
}

// victim picks the relay that something happens to.
func (c *cell) victim() *member {
	if c.survivor {
		return c.fleet[1]
	}
	return c.fleet[c.random.IntN(len(c.fleet))]
}

// mayRepeat allows what so many relays may have had in flight to come again.
func (c *cell) mayRepeat(relays int) {
	if !c.exact {
		c.repeats += relays * slots
	}
}

func (c *cell) tell(e history.Event) {
	c.t.Helper()
	c.must(c.h.Log().Append(e))
}

// mustHave skips the cell where a program that it needs is not installed.
func (c *cell) mustHave(err error) {
	c.t.Helper()
	if errors.Is(err, devservices.ErrNotInstalled) && !devservices.ThisMachine().CI() {
		c.t.Skip(err)
	}
	c.must(err)
}

func (c *cell) must(err error) {
	c.t.Helper()
	if err != nil {
		c.t.Fatal(err)
	}
}
