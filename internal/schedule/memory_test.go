package schedule

import (
	"context"
	"testing"
	"testing/synctest"

	"pgregory.net/rapid"

	"github.com/outboxrelay/outbox"
	"github.com/outboxrelay/outbox/internal/history"
	"github.com/outboxrelay/outbox/outboxtest"
)

// inMemory is an outbox in memory.
type inMemory struct{ store *outboxtest.Store }

func (b inMemory) Open(context.Context) (outbox.Store, func(), error) {
	return b.store.Peer(), func() {}, nil
}

func (b inMemory) Begin(context.Context) (Tx, error) { return memoryTx{b.store.Begin()}, nil }

func (b inMemory) Left(context.Context) (int, error) {
	c := b.store.Counts()
	return c.Ready + c.Waiting, nil
}

func (b inMemory) Operator() outbox.Operator { return b.store }

type memoryTx struct{ *outboxtest.Tx }

func (tx memoryTx) Commit(context.Context) error   { return tx.Tx.Commit() }
func (tx memoryTx) Rollback(context.Context) error { return tx.Tx.Rollback() }

// TestSchedulesInMemory: whatever the schedule, no promise is broken on an outbox in memory.
func TestSchedulesInMemory(t *testing.T) {
	if err := plays(inNone); err != nil { // the parallel tests begin when this one has ended
		t.Fatal(err)
	}
	defer func() { _ = plays(inDatabases) }()
	var all tally
	rapid.Check(t, func(rt *rapid.T) {
		plan := Plans(Limits{Steps: 40, Waits: true}).Draw(rt, "plan")
		var report history.Report
		var err error
		synctest.Test(t, func(t *testing.T) {
			report, err = Play(t.Context(), inMemory{outboxtest.NewStore()}, plan)
		})
		all.add(report.Counts)
		if err != nil {
			rt.Error(err)
		}
		if err := report.Err(); err != nil {
			rt.Error(err)
		}
	})
	all.check(t)
}
