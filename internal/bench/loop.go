package bench

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/outboxrelay/outbox"
)

// Loop is a page of code that drains a backlog on one connection: the reference. It has no claims, no order, no
// retries, no other relay.
type Loop struct {
	Backlog
	To     Target   // default nowhere
	Size   int      // rows of a page
	Locked bool     // rows are locked, and the transaction is open until all are published; else nothing is
	Hold   HoldFunc // what is open meanwhile
	Serial bool     // one message after another is published, else a page at once
}

// Plain reads rows in pages and deletes each.
func Plain(l Backlog) Loop { return Loop{Backlog: l, Size: Batch} }

// HandWritten is the loop that most teams have: lock some rows, publish one by one, delete them, commit.
func HandWritten(l Backlog, to Target) Loop {
	return Loop{Backlog: l, To: to, Size: 100, Locked: true, Serial: true}
}

// Pipelined is the best that can be made of it: larger pages, all messages of a page on their way at once.
func Pipelined(l Backlog, to Target) Loop {
	return Loop{Backlog: l, To: to, Size: Batch, Locked: true}
}

// DrainByLoop measures from the connection to the last page, an empty one.
func (b *Bed) DrainByLoop(ctx context.Context, l Loop) (Sample, error) {
	if err := b.Refill(ctx, l.Backlog); err != nil {
		return Sample{}, err
	}
	if l.To == nil {
		l.To = nowhere{}
	}
	release, err := l.Hold.Start(ctx, b)
	if err != nil {
		return Sample{}, err
	}
	t := NewTally(l.Rows, l.Keys)
	u, err := b.loop(ctx, l, t, release)
	if err != nil {
		return Sample{}, err
	}
	left, err := b.Left(ctx, l.Stay())
	if err != nil {
		return Sample{}, err
	}
	arrived, err := l.To.Arrived(ctx)
	return Sample{float64(l.Rows) / u.Took.Seconds(), u.Figures(l.Rows), t.Faults(left, arrived)}, err
}

// loop runs it; release is called afterwards.
func (b *Bed) loop(ctx context.Context, l Loop, t *Tally, release func() error) (Usage, error) {
	w := &Wire{}
	m, err := b.StartMeter(ctx, w)
	if err != nil {
		return Usage{}, errors.Join(err, release())
	}
	pool, err := b.Pool(ctx, 1, w)
	if err != nil {
		return Usage{}, errors.Join(m.Abandon(err), release())
	}
	conn, err := pool.Acquire(ctx)
	if err == nil {
		err = l.run(ctx, b.Database, conn.Conn(), t)
		conn.Release()
	}
	u, errFinish := m.Finish(ctx, func() error { pool.Close(); return release() })
	return u, errors.Join(err, errFinish)
}

// run delivers pages until one is empty.
func (l Loop) run(ctx context.Context, db *Database, conn *pgx.Conn, t *Tally) error {
	for last, more := int64(0), true; more; {
		err := l.inTx(ctx, conn, func(q session) (err error) {
			args := []any{last, l.Size}
			sql := pageSQL
			if l.Locked {
				sql, args = lockPageSQL, args[1:]
			}
			last, more, err = l.page(ctx, db, q, t, db.sql(sql), args...)
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// inTx makes a transaction if rows are to be locked.
func (l Loop) inTx(ctx context.Context, conn *pgx.Conn, page func(q session) error) error {
	if !l.Locked {
		return page(conn)
	}
	return pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error { return page(tx) })
}

// session is a connection or a transaction.
type session interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
}

// page delivers one and deletes it. It returns the last seq, and whether there was one.
func (l Loop) page(ctx context.Context, db *Database, q session, t *Tally, sql string, args ...any) (last int64, more bool, err error) {
	ds, err := readPage(ctx, q, l.Size, sql, args...)
	if err != nil || len(ds) == 0 {
		return 0, false, err
	}
	if err := l.publish(ctx, ds, t); err != nil {
		return 0, false, err
	}
	seqs := make([]int64, len(ds))
	for i, d := range ds {
		seqs[i] = d.Seq
	}
	if _, err := q.Exec(ctx, db.sql(deleteSQL), seqs); err != nil {
		return 0, false, fmt.Errorf("delete page: %w", err)
	}
	return seqs[len(seqs)-1], true, nil
}

func (l Loop) publish(ctx context.Context, ds []*outbox.Delivery, t *Tally) error {
	if !l.Serial {
		if err := l.To.PublishAll(ctx, ds); err != nil {
			return err
		}
	}
	for _, d := range ds {
		if l.Serial {
			if err := l.To.Publish(ctx, d); err != nil {
				return fmt.Errorf("publish: %w", err)
			}
		}
		t.Deliver(NumberOf(d.Payload))
	}
	return nil
}

// readPage reads what a consumer needs of each row.
func readPage(ctx context.Context, q session, size int, sql string, args ...any) ([]*outbox.Delivery, error) {
	rows, err := q.Query(ctx, sql, args...)
	if err != nil {
		return nil, fmt.Errorf("read page: %w", err)
	}
	defer rows.Close()
	ds := make([]*outbox.Delivery, 0, size)
	for rows.Next() {
		d := &outbox.Delivery{}
		var headers string
		if err := rows.Scan(&d.Seq, &d.ID, &d.Topic, &d.Key, &d.Payload, &headers, &d.PublishedAt); err != nil {
			return nil, fmt.Errorf("read page: %w", err)
		}
		ds = append(ds, d)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("read page: %w", err)
	}
	return ds, nil
}
