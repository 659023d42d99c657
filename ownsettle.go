package outbox

import (
	"context"
	"errors"
	"sync/atomic"
	"time"
)

// A handler may settle its message in a transaction of its own, so that its effect and the end of the message commit
// together. What it returns says nothing about the commit then, so the relay does not take its word: it looks.
//
//	the message      what the handler returned    the attempt
//	has ended        anything                     succeeded: Delivered
//	is still there   nil, Drop                    failed: errNotCommitted
//	is still there   another error                has failed by that error
//	nobody can tell  anything                     as if the relay had stopped it: GivenBack, or nothing if the lease is lost
//
// A store marks the delivery before it settles, with a function that finds out. The next message of the key waits until
// the relay knows (TestOwnTransactionHoldsItsKey).

// lookLimit bounds the last look of a relay that stops, or has lost its lease.
const lookLimit = time.Second

// lookFunc finds out whether a message has ended. It waits for a transaction that is about to decide that, or fails.
type lookFunc func(ctx context.Context) (ended bool, err error)

// ownSettle is shared by all copies of a delivery.
type ownSettle struct {
	look atomic.Pointer[lookFunc]
}

// SettlesInTx tells the relay that the handler settles the message in a transaction of its own, which may commit or not:
// when the handler has returned, the relay calls look to find out, and again while that fails. It is for stores, which
// call it before they settle the message in the transaction. A delivery that was not made by a relay forgets it. It may
// be called concurrently.
func (d *Delivery) SettlesInTx(look func(ctx context.Context) (ended bool, err error)) {
	if d.own != nil {
		l := lookFunc(look)
		d.own.look.Store(&l)
	}
}

// looker returns what finds out how the message ended; nil: the relay settles it.
func (d *Delivery) looker() lookFunc {
	if d.own == nil {
		return nil
	}
	if look := d.own.look.Load(); look != nil {
		return *look
	}
	return nil
}

var errNotCommitted = errors.New("the handler has settled the message in a transaction that was not committed")

// lookAfter returns the result of an attempt whose handler settled the message itself.
func (l *lane) lookAfter(s *session, d *Delivery, look lookFunc, err, cause error) (result, why error) {
	ended, failed := l.look(s, d, look)
	switch _, dropped := DropReason(err); {
	case failed != nil:
		return failed, context.Cause(s.ctx)
	case ended:
		return nil, nil
	case err == nil || dropped:
		return errNotCommitted, cause
	}
	return err, cause
}

// look asks until it gets an answer, or the session is over.
func (l *lane) look(s *session, d *Delivery, look lookFunc) (ended bool, err error) {
	retry := storeBackoff()
	for tries := 1; ; tries++ {
		limit := callTimeout(l.r.cfg.Lease)
		last := s.ctx.Err() != nil
		if last {
			limit = min(limit, lookLimit)
		}
		ctx, cancel := context.WithTimeout(l.r.base, limit)
		ended, err = look(ctx)
		cancel()
		if err == nil || last {
			return ended, err
		}
		if tries == 1 {
			l.r.log.Warn("cannot tell whether the handler's transaction was committed, will look again",
				append(messageAttrs(l, d), "error", err)...)
		}
		sleep(s.ctx, retry.next())
	}
}
