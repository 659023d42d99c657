package schedule

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/outboxrelay/outbox"
)

// mortal is a relay's view of a store, which can die: from then on nothing reaches the store and no answer is heard,
// as if the process had been killed. What was under way takes effect or not, as it does with a process.
type mortal struct {
	outbox.Store
	dead atomic.Bool
}

var (
	_ outbox.Preparer = (*mortal)(nil)
	_ outbox.Listener = (*mortal)(nil)
)

func (m *mortal) Prepare(ctx context.Context) error {
	if p, ok := m.Store.(outbox.Preparer); ok && !m.dead.Load() {
		return p.Prepare(ctx)
	}
	return nil
}

func (m *mortal) Listen(ctx context.Context) {
	if l, ok := m.Store.(outbox.Listener); ok && !m.dead.Load() {
		l.Listen(ctx)
		return
	}
	<-ctx.Done()
}

func (m *mortal) Claim(ctx context.Context, q outbox.ClaimQuery) (outbox.Batch, error) {
	if m.dead.Load() {
		return outbox.Batch{}, outbox.ErrLeaseLost
	}
	batch, err := m.Store.Claim(ctx, q)
	if m.dead.Load() {
		return outbox.Batch{}, outbox.ErrLeaseLost
	}
	return batch, err
}

// Settle lets a dead relay's outcomes go, so that it ends soon.
func (m *mortal) Settle(ctx context.Context, outcomes []outbox.Outcome) ([]outbox.Settled, error) {
	if !m.dead.Load() {
		if answers, err := m.Store.Settle(ctx, outcomes); !m.dead.Load() {
			return answers, err
		}
	}
	refused := make([]outbox.Settled, len(outcomes))
	for i := range refused {
		refused[i] = outbox.SettledFenced
	}
	return refused, nil
}

func (m *mortal) Beat(ctx context.Context, info outbox.RelayInfo, known []outbox.Token) (outbox.Orders, error) {
	if m.dead.Load() {
		return outbox.Orders{}, outbox.ErrLeaseLost
	}
	return m.Store.Beat(ctx, info, known)
}

func (m *mortal) Wait(ctx context.Context, seen uint64, until time.Time) (uint64, error) {
	if m.dead.Load() {
		<-ctx.Done()
		return seen, ctx.Err()
	}
	return m.Store.Wait(ctx, seen, until)
}

func (m *mortal) Maintain(ctx context.Context, q outbox.MaintainQuery) (outbox.MaintainReport, error) {
	if m.dead.Load() {
		return outbox.MaintainReport{}, nil
	}
	return m.Store.Maintain(ctx, q)
}
