package storetest

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/outboxrelay/outbox"
)

// OwnSettle is about handlers that settle in transactions of their own.
const OwnSettle Guarantee = "an effect and the end of its message commit together, exactly once"

func ownSettleCases() []Case {
	cases := []Case{
		{"a message settled in a transaction ends with its commit", OwnSettle, ownCommit},
		{"a message settled in a transaction that is rolled back is still held", OwnSettle, ownRollback},
		{"a message is settled in one transaction, once", OwnSettle, ownOnce},
		{"settling in a transaction is fenced after a takeover", OwnSettle, ownFenced},
		{"a transaction that outlives the lease keeps its message", OwnSettle, ownOutlivesLease},
		{"a relay that dies after the commit leaves nothing behind", OwnSettle, ownDeath},
		{"others of a claim settle while a transaction is open", OwnSettle, ownBesideOthers},
		{"a relay delivers again what its handler did not commit", OwnSettle, ownRelay},
	}
	for i, c := range cases {
		cases[i].run = func(e *env) {
			if !e.h.Features().OwnSettle {
				e.Log("the store does not declare OwnSettle")
				return
			}
			c.run(e)
		}
	}
	return cases
}

// trySettleIn settles a message in a transaction.
func (e *env) trySettleIn(tx Tx, d *outbox.Delivery) error {
	e.Helper()
	own := tx
	if t, ok := tx.(*transaction); ok {
		own = t.Tx
	}
	s, ok := own.(Settler)
	if !ok {
		e.Fatalf("%T is no Settler", own)
	}
	return s.Settle(e.ctx, d)
}

func (e *env) settleIn(tx Tx, ds ...*outbox.Delivery) {
	e.Helper()
	for _, d := range ds {
		e.must(e.trySettleIn(tx, d))
	}
}

func ownCommit(e *env) {
	r := e.relay()
	e.publish(msg("a", "k", "1"), msg("a", "k", "2"))
	ds := r.takes("1", "2")
	tx := e.begin()
	e.settleIn(tx, ds[0])
	e.equal("before the commit", e.counts(), Counts{Ready: 2, Claimed: 2, Claims: 1})
	e.commit(tx)
	e.equal("ready after the commit", e.counts().Ready, 1)
	r.deliver(ds[0])
	e.equal("after the relay knows", e.counts(), Counts{Ready: 1, Claimed: 1, Claims: 1})
	r.deliver(ds[1])
	e.equal("what is left", e.counts(), Counts{})

	// One that has failed before waits elsewhere.
	e.publish(msg("a", "", "3"))
	r.settled(retried(r.takes("3")[0], 0))
	d := r.takes("3")[0]
	tx = e.begin(msg("b", "", "caused by 3"))
	e.settleIn(tx, d)
	e.commit(tx)
	r.deliver(d)
	r.deliver(r.takes("caused by 3")...)
	e.equal("what is left", e.counts(), Counts{})
}

func ownRollback(e *env) {
	r := e.relay()
	e.publish(msg("a", "k", "1"))
	d := r.takes("1")[0]
	tx := e.begin()
	e.settleIn(tx, d)
	e.rollback(tx)
	e.equal("after the rollback", e.counts(), Counts{Ready: 1, Claimed: 1, Claims: 1})
	r.takesNothing()
	r.settled(retried(d, 0))
	again := r.takes("1")[0]
	e.equal("attempt", again.Attempt, 2)
	tx = e.begin()
	e.settleIn(tx, again)
	e.commit(tx)
	r.deliver(again)
	e.equal("what is left", e.counts(), Counts{})
}

func ownOnce(e *env) {
	r := e.relay()
	e.publish(msg("a", "", "1"), msg("a", "", "2"))
	ds := r.takes("1", "2")
	tx := e.begin()
	e.settleIn(tx, ds[0])
	if e.trySettleIn(tx, ds[0]) == nil {
		e.Error("a message was settled twice in a transaction")
	}
	e.rollback(tx)
	r.deliver(ds[1])
	tx = e.begin()
	if e.trySettleIn(tx, ds[1]) == nil {
		e.Error("a message was settled that the relay had settled")
	}
	e.rollback(tx)
	e.equal("what is left", e.counts(), Counts{Ready: 1, Claimed: 1, Claims: 1})
}

func ownFenced(e *env) {
	r, other := e.relay(), e.relay()
	e.publish(msg("a", "", "1"), msg("a", "k", "2"))
	late := r.take(2)
	e.lapse(other)
	ds := other.take(2)
	for _, d := range late {
		tx := e.begin()
		e.leaseLost("settling in a transaction", e.trySettleIn(tx, d))
		e.rollback(tx)
	}
	e.equal("what is left", e.counts(), Counts{Ready: 2, Claimed: 2, Claims: 1})
	tx := e.begin()
	e.settleIn(tx, ds...)
	e.commit(tx)
	other.deliver(ds...)
	e.equal("what is left", e.counts(), Counts{})
}

func ownOutlivesLease(e *env) {
	for _, commits := range []bool{true, false} {
		r, other := e.relay(), e.relay()
		e.publish(msg("a", "k", "1"), msg("a", "k", "2"))
		ds := r.takes("1", "2")
		e.lapse(other)
		tx := e.begin()
		e.settleIn(tx, ds[0])
		other.takesNothing()
		if commits {
			e.commit(tx)
			other.deliver(other.takes("2")...)
		} else {
			e.rollback(tx)
			other.deliver(other.takes("1", "2")...)
		}
		e.equal("what is left", e.counts(), Counts{})
		other.stop()
	}
}

func ownDeath(e *env) {
	r, other := e.relay(), e.relay()
	e.publish(msg("a", "k", "1"))
	d := r.takes("1")[0]
	tx := e.begin()
	e.settleIn(tx, d)
	e.commit(tx)
	e.publish(msg("a", "k", "2"))
	other.takesNothing() // the key is held until the relay has been told
	e.lapse(other)
	other.deliver(other.takes("2")...)
	e.equal("what is left", e.counts(), Counts{})
}

func ownBesideOthers(e *env) {
	r := e.relay()
	e.publish(msg("a", "", "1"), msg("a", "", "2"), msg("a", "", "3"), msg("a", "", "4"))
	ds := r.takes("1", "2", "3", "4")
	tx := e.begin()
	e.settleIn(tx, ds[1])
	r.settled(outcome(outbox.Delivered, ds[0]), retried(ds[2], 0))
	r.beat()
	e.settleIn(tx, ds[3])
	e.commit(tx)
	r.settled(outcome(outbox.Delivered, ds[3]), outcome(outbox.Delivered, ds[1]))
	r.deliver(r.takes("3")...)
	e.equal("what is left", e.counts(), Counts{})
}

// ownRelay: what the handler returns says nothing about the commit.
func ownRelay(e *env) {
	e.publish(msg("a", "k", "1"), msg("a", "k", "2"), msg("a", "", "3"), msg("a", "", "4"))
	var mu sync.Mutex
	var calls []string
	handler := outbox.SinkFunc(func(ctx context.Context, d *outbox.Delivery) error {
		mu.Lock()
		calls = append(calls, string(d.Payload))
		mu.Unlock()
		tx, err := e.h.Begin(ctx)
		if err != nil {
			return err
		}
		copied := *d // the mark is on all copies
		if err := tx.(Settler).Settle(ctx, &copied); err != nil {
			return errors.Join(err, tx.Rollback(ctx))
		}
		switch {
		case string(d.Payload) == "1" && d.Attempt == 1: // forgets to commit
			return tx.Rollback(ctx)
		case string(d.Payload) == "3" && d.Attempt == 1:
			return errors.Join(outbox.Drop("not wanted"), tx.Rollback(ctx))
		case string(d.Payload) == "4": // fails after the commit
			return errors.Join(tx.Commit(ctx), errors.New("too late to fail"))
		}
		return tx.Commit(ctx)
	})
	relay, err := outbox.NewRelay(e.h.Open(e.TB), outbox.To(handler), &outbox.Config{
		Retry: outbox.RetryPolicy{Base: time.Millisecond, Max: time.Millisecond}, Lease: lease,
	})
	e.must(err)
	var total outbox.Counts
	for again := e.patiently(); total.Delivered < 4; again() {
		n, err := relay.RunUntilIdle(e.ctx)
		e.must(err)
		total.Delivered += n.Delivered
		total.Retried += n.Retried
		total.Dead += n.Dead + n.Dropped + n.Expired + n.Fenced
	}
	e.equal("what became of them", total, outbox.Counts{Delivered: 4, Retried: 2})
	e.equal("what is left", e.counts(), Counts{})
	slices.Sort(calls)
	e.equal("calls", calls, []string{"1", "1", "2", "3", "3", "4"})
}
