package e2e

import (
	"context"
	"math/rand/v2"

	"github.com/jackc/pgx/v5"

	"github.com/outboxrelay/outbox"
	"github.com/outboxrelay/outbox/internal/history"
	"github.com/outboxrelay/outbox/pgstore"
)

// in runs statements in a transaction that stays open, while messages go on, and then ends.
func (c *cell) in(isolation pgx.TxIsoLevel, do func(context.Context, pgx.Tx), end func(context.Context, pgx.Tx) error) {
	c.t.Helper()
	ctx := c.t.Context()
	conn, err := pgx.Connect(ctx, c.direct)
	c.must(err)
	defer conn.Close(context.WithoutCancel(ctx))
	tx, err := conn.BeginTx(ctx, pgx.TxOptions{IsoLevel: isolation})
	c.must(err)
	do(ctx, tx)
	c.awaitProgress()
	c.hold()
	c.awaitProgress()
	c.must(end(ctx, tx))
}

func (c *cell) exec(ctx context.Context, tx pgx.Tx, sql string) {
	c.t.Helper()
	_, err := tx.Exec(ctx, sql)
	c.must(err)
}

func rollback(ctx context.Context, tx pgx.Tx) error { return tx.Rollback(ctx) }

// holdReader keeps a snapshot, so that nothing can be vacuumed.
func holdReader(c *cell) {
	c.in(pgx.RepeatableRead, func(ctx context.Context, tx pgx.Tx) { c.exec(ctx, tx, "select count(*) from outbox.message") }, rollback)
}

// holdWriter keeps a transaction id, in a table that is not the outbox's.
func holdWriter(c *cell) {
	c.in(pgx.ReadCommitted, func(ctx context.Context, tx pgx.Tx) {
		c.exec(ctx, tx, "create table ledger (n int)")
		c.exec(ctx, tx, "insert into ledger values (1)")
	}, rollback)
}

// holdPublisher keeps messages that are published and not yet committed.
func holdPublisher(c *cell) {
	l := c.latecomers(nil)
	c.in(pgx.ReadCommitted, l.publish, l.commit)
}

// holdPrepared keeps published messages in a prepared transaction, which has no connection. PostgreSQL prepares none
// that has notified.
func holdPrepared(c *cell) {
	l := c.latecomers(&pgstore.PublishConfig{Notify: pgstore.NotifyOff})
	c.in(pgx.ReadCommitted, func(ctx context.Context, tx pgx.Tx) {
		l.publish(ctx, tx)
		c.exec(ctx, tx, "prepare transaction 'held'")
	}, func(ctx context.Context, tx pgx.Tx) error {
		_ = tx.Rollback(ctx) // there is none any more
		return l.told(func() error {
			_, err := c.db.pool.Exec(ctx, "commit prepared 'held'")
			return err
		})
	})
}

// latecomers are messages that are published long before they are committed, with keys of others.
type latecomers struct {
	c        *cell
	w        *writer
	messages []outbox.Message
}

func (c *cell) latecomers(cfg *pgstore.PublishConfig) *latecomers {
	c.t.Helper()
	publisher, err := pgstore.NewPublisher(cfg)
	c.must(err)
	w := &writer{plan: c.plan, log: c.h.Log(), publisher: publisher}
	w.Seed++ // other payloads than the publisher's
	return &latecomers{c: c, w: w, messages: w.messages(rand.New(rand.NewPCG(w.Seed, 9)), 20)}
}

func (l *latecomers) publish(ctx context.Context, tx pgx.Tx) {
	receipts, err := l.w.publisher.Publish(ctx, tx, l.messages...)
	l.c.must(err)
	for i, r := range receipts {
		l.messages[i].ID = r.ID
	}
}

func (l *latecomers) commit(ctx context.Context, tx pgx.Tx) error {
	return l.told(func() error { return tx.Commit(ctx) })
}

// told commits, and writes that down before and after.
func (l *latecomers) told(commit func() error) error {
	l.w.tell(history.Publishing, l.messages)
	err := commit()
	if err == nil {
		l.w.tell(history.Committed, l.messages)
	}
	return err
}

// readArchive reads the archive while partitions are missing that a relay wants to add.
func readArchive(c *cell) {
	if c.db.count(c.t.Context(), partitionsAhead) < 1 {
		c.t.Error("the relays have added no partitions")
	}
	c.db.exec(c.t, dropAhead)
	c.in(pgx.RepeatableRead, func(ctx context.Context, tx pgx.Tx) {
		c.exec(ctx, tx, "select count(*) from outbox.archive")
		m := c.victim()
		m.Terminate()
		m.start() // a relay that starts makes them
		if c.db.count(ctx, partitionsAhead) != 0 {
			c.t.Error("partitions were added: the reader held up nothing")
		}
	}, rollback)
	if c.db.count(c.t.Context(), "select count(*) from outbox.archive") == 0 {
		c.t.Error("nothing is in the archive")
	}
}

// ahead are the partitions of the archive that begin in the future.
const ahead = ` from pg_inherits where inhparent = 'outbox.archive'::regclass
	and substring(inhrelid::regclass::text from '_([0-9]{8})_') > to_char(now() at time zone 'UTC', 'YYYYMMDD')`

const (
	partitionsAhead = `select count(*)` + ahead
	dropAhead       = `do $$ declare part regclass; begin
		for part in select inhrelid::regclass` + ahead + ` loop execute 'drop table ' || part; end loop; end $$`
)
