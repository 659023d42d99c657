package demo

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"hash/fnv"
	"sync"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outboxrelay/outbox"
	"github.com/outboxrelay/outbox/pgstore"
)

//go:embed queries/insert_order.sql
var insertOrderSQL string

const (
	writers = 4
	// Of each tenDeclined transactions one is rolled back after its message was inserted, and then tried again.
	tenDeclined = 10
	declinedOne = 7
)

// application commits orders, each with its message in the same transaction. Messages of one key are committed by one
// writer, one after another: so the order of publishing is known.
type application struct {
	pool      *pgxpool.Pool
	publisher *pgstore.Publisher
	insertSQL string
	ledger    *ledger
	message   func(i int) outbox.Message
	total     int

	ctx      context.Context
	fail     context.CancelCauseFunc
	queues   [writers]chan int
	released int
	running  sync.WaitGroup
}

// startApplication starts the writers, which wait for release. end must be called.
func startApplication(ctx context.Context, s *services, l *ledger, cfg *Config) (*application, error) {
	publisher, err := pgstore.NewPublisher(&pgstore.PublishConfig{Schema: s.name, MaxPayload: outbox.MaxPayloadCeiling})
	if err != nil {
		return nil, err
	}
	a := &application{pool: s.pool, publisher: publisher, insertSQL: s.sql(insertOrderSQL), ledger: l, message: cfg.Message, total: cfg.Count}
	a.ctx, a.fail = context.WithCancelCause(ctx)
	for i := range a.queues {
		a.queues[i] = make(chan int, a.total)
		a.running.Go(func() { a.write(a.queues[i]) })
	}
	return a, nil
}

// release lets the writers go on with up to n orders more.
func (a *application) release(n int) {
	for range min(n, a.total-a.released) {
		m := a.message(a.released)
		a.queues[writerOf(m.Key, a.released)] <- a.released
		a.released++
	}
}

func writerOf(key string, i int) int {
	if key == "" {
		return i % writers
	}
	h := fnv.New32a()
	_, _ = h.Write([]byte(key))
	return int(h.Sum32() % writers)
}

// idle reports whether all that was released is committed.
func (a *application) idle() bool { return a.ledger.count() == a.released }

// failed is why a writer gave up.
func (a *application) failed() error { return context.Cause(a.ctx) }

// end stops the writers.
func (a *application) end() {
	a.fail(context.Canceled)
	for _, q := range a.queues {
		close(q)
	}
	a.running.Wait()
}

func (a *application) write(queue <-chan int) {
	for i := range queue {
		if a.ctx.Err() != nil {
			return
		}
		if err := a.order(i); err != nil {
			a.fail(err)
			return
		}
	}
}

// errDeclined ends a transaction on purpose.
var errDeclined = errors.New("declined")

// order commits one order, some at the second try.
func (a *application) order(i int) error {
	m := a.message(i)
	if i%tenDeclined == declinedOne%tenDeclined {
		id, err := a.transaction(i, m, errDeclined)
		if !errors.Is(err, errDeclined) {
			return err
		}
		a.ledger.rollBack(id, &m)
	}
	id, err := a.transaction(i, m, nil)
	if err == nil {
		a.ledger.commit(id, &m)
	}
	return err
}

// transaction inserts an order and its message, and commits unless there is an outcome.
func (a *application) transaction(i int, m outbox.Message, outcome error) (id outbox.ID, err error) {
	err = pgx.BeginFunc(a.ctx, a.pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(a.ctx, a.insertSQL, i+1, m.Key); err != nil {
			return fmt.Errorf("insert order %d: %w", i+1, err)
		}
		receipts, err := a.publisher.Publish(a.ctx, tx, m)
		if err != nil {
			return fmt.Errorf("order %d: %w", i+1, err)
		}
		id = receipts[0].ID
		return outcome
	})
	return id, err
}
