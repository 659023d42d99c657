package main

import (
	"context"
	_ "embed"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outboxrelay/outbox"
	"github.com/outboxrelay/outbox/pgstore"
)

var (
	//go:embed queries/page.sql
	pageSQL string
	//go:embed queries/delete.sql
	deleteSQL string
)

// The drained backlogs and the claims of the relays that drain them.
const (
	drainSlots = 2000
	drainBatch = 500
	manyKeys   = 10_000
)

func drainScenario() scenario {
	plain, plainKeyed := "plain, no keys", "plain, 10000 keys"
	sc := scenario{
		name: "drain", rate: "msg/s", ratio: "of plain",
		about: "a backlog to a sink that does nothing, beside plain SQL that reads the same rows in pages and deletes them",
		cases: []benchCase{{name: plain, run: plainDrain(0)}, {name: plainKeyed, run: plainDrain(manyKeys)}},
	}
	for _, c := range []struct {
		name, base string
		keys       int
	}{{"no keys", plain, 0}, {"1 key", plainKeyed, 1}, {"1000 keys", plainKeyed, 1000}, {"10000 keys", plainKeyed, manyKeys}} {
		sc.cases = append(sc.cases, benchCase{c.name, c.base, func(ctx context.Context, b *bench) (sample, error) {
			return b.drain(ctx, drainRun{rows: b.opt.rows, keys: c.keys, relays: 1, slots: drainSlots})
		}})
	}
	return sc
}

// drainRun is a backlog and the relays that drain it. The sink does nothing if it is nil.
type drainRun struct {
	rows, keys, relays, slots int
	sink                      func(ctx context.Context, d *outbox.Delivery) error
}

// drain measures from the start of the relays to the settlement of the last message.
func (b *bench) drain(ctx context.Context, run drainRun) (sample, error) {
	s := b.server
	if err := s.fill(ctx, run.rows, run.keys); err != nil {
		return sample{}, err
	}
	t := newTally(run.rows, run.keys)
	w := &wire{}
	m, err := s.startMeter(ctx, w)
	if err != nil {
		return sample{}, err
	}
	f, err := s.startFleet(ctx, fleetConfig{relays: run.relays, route: run.route(t), notify: pgstore.NotifyPublish, tally: t, wire: w})
	if err != nil {
		return sample{}, err
	}
	err = t.wait(ctx, f.failed, stall)
	u, errStop := m.stop(ctx)
	if err := errors.Join(err, errStop, f.stop()); err != nil {
		return sample{}, err
	}
	if err := m.functions(ctx, &u); err != nil {
		return sample{}, err
	}
	left, err := s.left(ctx)
	rate := float64(run.rows) / u.took.Seconds()
	return sample{rate, append(u.figures(run.rows), u.callFigures(run.rows)...), t.faults(left)}, err
}

// route sends everything to the sink, which tells the tally.
func (run drainRun) route(t *tally) outbox.Route {
	sink := outbox.SinkFunc(func(ctx context.Context, d *outbox.Delivery) error {
		t.deliver(d.Seq)
		if run.sink == nil {
			return nil
		}
		return run.sink(ctx, d)
	})
	return outbox.Route{Name: "bench", Topics: []string{">"}, Sink: sink, Slots: run.slots, BatchSize: drainBatch}
}

// plainDrain is the reference: no claims, no order, no other relay.
func plainDrain(keys int) func(ctx context.Context, b *bench) (sample, error) {
	return func(ctx context.Context, b *bench) (sample, error) {
		s, rows := b.server, b.opt.rows
		if err := s.fill(ctx, rows, keys); err != nil {
			return sample{}, err
		}
		t := newTally(rows, keys)
		w := &wire{}
		m, err := s.startMeter(ctx, w)
		if err != nil {
			return sample{}, err
		}
		pool, err := s.pool(ctx, 1, w)
		if err != nil {
			return sample{}, err
		}
		defer pool.Close()
		if err := drainPages(ctx, pool, t); err != nil {
			return sample{}, err
		}
		u, err := m.stop(ctx)
		if err != nil {
			return sample{}, err
		}
		left, err := s.left(ctx)
		return sample{float64(rows) / u.took.Seconds(), u.figures(rows), t.faults(left)}, err
	}
}

// drainPages reads and deletes until a page is empty.
func drainPages(ctx context.Context, pool *pgxpool.Pool, t *tally) error {
	conn, err := pool.Acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Release()
	for last := int64(0); ; {
		seqs, err := readPage(ctx, conn.Conn(), last, t)
		if err != nil || len(seqs) == 0 {
			return err
		}
		last = seqs[len(seqs)-1]
		if _, err := conn.Exec(ctx, deleteSQL, seqs); err != nil {
			return fmt.Errorf("delete page: %w", err)
		}
	}
}

// readPage reads what a consumer needs of each row.
func readPage(ctx context.Context, conn *pgx.Conn, after int64, t *tally) ([]int64, error) {
	rows, err := conn.Query(ctx, pageSQL, after, drainBatch)
	if err != nil {
		return nil, fmt.Errorf("read page: %w", err)
	}
	defer rows.Close()
	seqs := make([]int64, 0, drainBatch)
	for rows.Next() {
		d := &outbox.Delivery{}
		var headers string
		if err := rows.Scan(&d.Seq, &d.ID, &d.Topic, &d.Key, &d.Payload, &headers, &d.PublishedAt); err != nil {
			return nil, fmt.Errorf("read page: %w", err)
		}
		seqs = append(seqs, d.Seq)
		t.deliver(d.Seq)
	}
	return seqs, rows.Err()
}
