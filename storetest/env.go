package storetest

import (
	"context"
	"reflect"
	"testing"
	"time"

	"github.com/outboxrelay/outbox"
)

// env is what a case works with.
type env struct {
	testing.TB
	ctx      context.Context
	h        Harness
	patience time.Duration
	begun    []*transaction
}

// transaction knows whether it has been ended.
type transaction struct {
	Tx
	ended bool
}

func (tx *transaction) Commit(ctx context.Context) error {
	tx.ended = true
	return tx.Tx.Commit(ctx)
}

func (tx *transaction) Rollback(ctx context.Context) error {
	tx.ended = true
	return tx.Tx.Rollback(ctx)
}

// end rolls back what a case has left open that failed: whoever closes the outbox would wait for it.
func (e *env) end() {
	for _, tx := range e.begun {
		if !tx.ended {
			_ = tx.Rollback(context.WithoutCancel(e.ctx))
		}
	}
}

// msg is a message whose payload is its label.
func msg(topic, key, label string) outbox.Message {
	return outbox.Message{Topic: topic, Key: key, Payload: []byte(label)}
}

// begin starts a transaction and publishes in it.
func (e *env) begin(ms ...outbox.Message) Tx {
	e.Helper()
	own, err := e.h.Begin(e.ctx)
	e.must(err)
	tx := &transaction{Tx: own}
	e.begun = append(e.begun, tx)
	if len(ms) > 0 {
		e.publishIn(tx, ms...)
	}
	return tx
}

// late publishes messages that have their place in publish order from now on and appear later, by appear: their
// transaction commits late. Where nothing can commit late, they are scheduled and become due late, while the given relays
// live: later than a case may last, so that on no machine, however slow, they are due before.
func (e *env) late(ms ...outbox.Message) (receipts []outbox.Receipt, appear func(living ...*relay)) {
	e.Helper()
	if !e.h.Features().OneWriter {
		tx := e.begin()
		return e.publishIn(tx, ms...), func(...*relay) { e.commit(tx) }
	}
	for i := range ms {
		ms[i].Delay = caseTimeout
	}
	return e.publish(ms...), func(living ...*relay) { e.advance(caseTimeout, living...) }
}

// lateCommit is begin for a transaction that is still open when time passes and others publish.
func (e *env) lateCommit(ms ...outbox.Message) Tx {
	e.Helper()
	if e.h.Features().OneWriter {
		e.Skip("the store has one writer at a time, so nothing commits late")
	}
	return e.begin(ms...)
}

func (e *env) publishIn(tx Tx, ms ...outbox.Message) []outbox.Receipt {
	e.Helper()
	receipts, err := tx.Publish(e.ctx, ms...)
	e.must(err)
	if len(receipts) != len(ms) {
		e.Fatalf("%d receipts for %d messages", len(receipts), len(ms))
	}
	return receipts
}

// publish publishes in a transaction of its own and commits it.
func (e *env) publish(ms ...outbox.Message) []outbox.Receipt {
	e.Helper()
	tx := e.begin()
	receipts := e.publishIn(tx, ms...)
	e.commit(tx)
	return receipts
}

func (e *env) commit(tx Tx) {
	e.Helper()
	e.must(tx.Commit(e.ctx))
}

func (e *env) rollback(tx Tx) {
	e.Helper()
	e.must(tx.Rollback(e.ctx))
}

// advance lets time pass while the given relays live.
func (e *env) advance(d time.Duration, living ...*relay) {
	e.Helper()
	step := d
	for _, r := range living {
		step = min(step, r.info.Lease/2)
	}
	for ; d > 0; d -= step {
		e.must(e.h.Advance(e.ctx, min(step, d)))
		for _, r := range living {
			r.beat()
		}
	}
}

func (e *env) counts() Counts {
	e.Helper()
	c, err := e.h.Counts(e.ctx)
	e.must(err)
	return c
}

func (e *env) dead() []Dead {
	e.Helper()
	ds, err := e.h.Dead(e.ctx)
	e.must(err)
	return ds
}

func (e *env) must(err error) {
	e.Helper()
	if err != nil {
		e.Fatalf("unexpected error: %v", err)
	}
}

// equal ends the case unless got is want.
func (e *env) equal(what string, got, want any) {
	e.Helper()
	if !reflect.DeepEqual(got, want) {
		e.Fatalf("%s: got %v, want %v", what, got, want)
	}
}

// patiently returns what a loop that waits for messages calls each time: it ends the case when they do not
// come.
func (e *env) patiently() func() {
	deadline := time.Now().Add(e.patience)
	return func() {
		e.Helper()
		if time.Now().After(deadline) {
			e.Fatal("messages that are claimable do not come")
		}
	}
}

// labels returns the payloads as texts.
func labels(ds []*outbox.Delivery) []string {
	texts := make([]string, len(ds))
	for i, d := range ds {
		texts[i] = string(d.Payload)
	}
	return texts
}
