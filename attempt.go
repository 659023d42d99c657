package outbox

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// attempt is one call of a sink under way, and the context that it gets. A timer and a cancellable
// context cost more than a fast delivery, so both are made when the context is first looked at.
type attempt struct {
	session  *session  // its ctx is the parent: it ends when the lease is lost or the drain is over
	d        *Delivery // nil in a batch
	batch    *batch    // nil for a single message
	began    time.Time
	deadline time.Time
	ctx      context.Context // the attempt itself, or what the hooks made of it
	reported atomic.Bool     // as stuck

	mu     sync.Mutex
	inner  context.Context // nil until looked at
	cancel context.CancelFunc
}

func (a *attempt) open() context.Context {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.inner == nil {
		a.inner, a.cancel = context.WithDeadlineCause(a.session.ctx, a.deadline, ErrHandlerTimeout)
	}
	return a.inner
}

// end releases the context, which whoever kept it finds cancelled, and tells why it had been cancelled
// before, nil if it had not.
func (a *attempt) end(now time.Time) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	cause := a.causeLocked(now)
	if a.inner != nil {
		a.cancel()
	} else {
		a.inner = a.session.after
	}
	return cause
}

// causeNow tells why the context is over, nil if it is not.
func (a *attempt) causeNow(now time.Time) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.causeLocked(now)
}

func (a *attempt) causeLocked(now time.Time) (cause error) {
	if a.inner != nil { // the handler's view is what counts
		cause = context.Cause(a.inner)
	} else {
		cause = context.Cause(a.session.ctx)
	}
	if cause == nil && !now.Before(a.deadline) {
		cause = ErrHandlerTimeout
	}
	return cause
}

func (a *attempt) Deadline() (time.Time, bool) { return a.deadline, true }
func (a *attempt) Done() <-chan struct{}       { return a.open().Done() }
func (a *attempt) Err() error                  { return a.open().Err() }

// Value knows what the message caused, and where it came from, without looking at the time limit.
func (a *attempt) Value(key any) any {
	if key == (causationKey{}) && a.d != nil {
		return a.d.chain()
	}
	return a.values().Value(key)
}

// values knows what the attempt's context does: the session's, while nobody has looked and the time limit, of which
// package context asks by Value, has not come.
func (a *attempt) values() context.Context {
	a.mu.Lock()
	untouched := a.inner == nil && time.Now().Before(a.deadline)
	a.mu.Unlock()
	if untouched {
		return a.session.ctx
	}
	return a.open()
}

// overdue reports whether the context has been over for longer than grace.
func (a *attempt) overdue(now time.Time, grace time.Duration) bool {
	if now.Sub(a.deadline) > grace {
		return true
	}
	ended := a.session.endedAt.Load()
	return ended != 0 && now.Sub(time.Unix(0, ended)) > grace
}

// subject names what is being delivered.
func (a *attempt) subject(l *lane) []any {
	if a.batch != nil {
		return a.batch.subject()
	}
	return messageAttrs(l, a.d)
}

// messages counts what has no result yet.
func (a *attempt) messages() int {
	if a.batch != nil {
		return a.batch.unreported()
	}
	return 1
}

var _ context.Context = (*attempt)(nil)
