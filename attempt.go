package outbox

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// attempt is one delivery under way, and the context that its handler gets. A timer and a cancellable
// context cost more than a fast delivery, so both are made when the context is first looked at.
type attempt struct {
	session  *session // its ctx is the parent: it ends when the lease is lost or the drain is over
	d        *Delivery
	began    time.Time
	deadline time.Time
	reported atomic.Bool // as stuck

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
func (a *attempt) end(now time.Time) (cause error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.inner != nil { // the handler's view is what counts
		cause = context.Cause(a.inner)
		a.cancel()
	} else {
		cause = context.Cause(a.session.ctx)
		a.inner = a.session.after
	}
	if cause == nil && !now.Before(a.deadline) {
		cause = ErrHandlerTimeout
	}
	return cause
}

func (a *attempt) Deadline() (time.Time, bool) { return a.deadline, true }
func (a *attempt) Done() <-chan struct{}       { return a.open().Done() }
func (a *attempt) Err() error                  { return a.open().Err() }
func (a *attempt) Value(key any) any           { return a.open().Value(key) }

// overdue reports whether the context has been over for longer than grace.
func (a *attempt) overdue(now time.Time, grace time.Duration) bool {
	if now.Sub(a.deadline) > grace {
		return true
	}
	ended := a.session.endedAt.Load()
	return ended != 0 && now.Sub(time.Unix(0, ended)) > grace
}

var _ context.Context = (*attempt)(nil)
