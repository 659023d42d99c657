package demo

import (
	"context"
	"errors"
	"hash/fnv"
	"sync"

	"github.com/outboxrelay/outbox"
)

const (
	writers = 4
	// Of each tenDeclined transactions one is rolled back after its message was inserted, and then tried again.
	tenDeclined = 10
	declinedOne = 7
)

// application commits orders, each with its message in the same transaction. Messages of one key are committed by one
// writer, one after another: so the order of publishing is known.
type application struct {
	database database
	ledger   *ledger
	message  func(i int) outbox.Message
	total    int

	ctx      context.Context
	fail     context.CancelCauseFunc
	queues   [writers]chan int
	released int
	running  sync.WaitGroup
}

// startApplication starts the writers, which wait for release. end must be called.
func startApplication(ctx context.Context, s *services, l *ledger, cfg *Config) *application {
	a := &application{database: s.database, ledger: l, message: cfg.Message, total: cfg.Count}
	a.ctx, a.fail = context.WithCancelCause(ctx)
	for i := range a.queues {
		a.queues[i] = make(chan int, a.total)
		a.running.Go(func() { a.write(a.queues[i]) })
	}
	return a
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
		id, err := a.database.transaction(a.ctx, i, m, errDeclined)
		if !errors.Is(err, errDeclined) {
			return err
		}
		a.ledger.rollBack(id, &m)
	}
	id, err := a.database.transaction(a.ctx, i, m, nil)
	if err == nil {
		a.ledger.commit(id, &m)
	}
	return err
}
