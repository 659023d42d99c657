package outboxtest

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/outboxrelay/outbox"
	"github.com/outboxrelay/outbox/storetest"
)

func TestStoreConforms(t *testing.T) {
	storetest.Run(t, func(t *testing.T) storetest.Harness {
		t.Parallel()
		return newHarness(soundRules())
	})
}

// harness shows a Store to the conformance suite, or a wrong one: with other rules, or behind wrappers.
type harness struct {
	store    *Store
	clock    *clock
	patience time.Duration
	// wrapStore, wrapTx and wrapOperator come between the suite and the store.
	wrapStore    func(outbox.Store) outbox.Store
	wrapTx       func(storetest.Tx) storetest.Tx
	wrapOperator func(outbox.Operator) outbox.Operator
}

func newHarness(r rules) *harness {
	c := &clock{}
	s := NewStore(WithClock(c.now))
	s.box.rules = r
	return &harness{
		store: s, clock: c,
		wrapStore:    func(s outbox.Store) outbox.Store { return s },
		wrapOperator: func(o outbox.Operator) outbox.Operator { return o },
		wrapTx:       func(tx storetest.Tx) storetest.Tx { return tx },
	}
}

// clock runs ahead of the real one by what the suite advanced.
type clock struct {
	mu    sync.Mutex
	ahead time.Duration
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Now().Add(c.ahead)
}

func (c *clock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ahead += d
}

func (h *harness) Open(testing.TB) outbox.Store { return h.wrapStore(h.store.Peer()) }

func (h *harness) Operator(testing.TB) outbox.Operator { return h.wrapOperator(h.store.Peer()) }

func (h *harness) OpenKeeping(_ testing.TB, payload bool) outbox.Store {
	h.store.box.archives, h.store.box.bare = true, !payload
	return h.wrapStore(h.store.Peer())
}

func (h *harness) Archived(context.Context) (list []storetest.Archived, err error) {
	for _, a := range h.store.Archived() {
		list = append(list, storetest.Archived{ID: a.Message.ID, Key: a.Message.Key, Payload: string(a.Message.Payload), State: a.State,
			Detail: a.Detail, Actor: a.Actor, Destination: a.Destination, Attempts: a.Attempts, Generation: a.Generation})
	}
	return list, nil
}

func (h *harness) Begin(context.Context) (storetest.Tx, error) {
	return h.wrapTx(suiteTx{h.store.Begin()}), nil
}

func (h *harness) Advance(_ context.Context, d time.Duration) error {
	h.clock.advance(d)
	return nil
}

func (h *harness) Counts(context.Context) (storetest.Counts, error) {
	c := h.store.Counts()
	return storetest.Counts{
		Ready: c.Ready, Waiting: c.Waiting, Dead: c.Dead, Claimed: c.Claimed, Claims: h.store.Claims(),
	}, nil
}

func (h *harness) Dead(context.Context) ([]storetest.Dead, error) {
	var letters []storetest.Dead
	for _, d := range h.store.Dead() {
		letters = append(letters, storetest.Dead{ID: d.Message.ID, Attempts: d.Attempts, Class: d.Class, Text: d.Text, Holds: d.Holds})
	}
	return letters, nil
}

func (h *harness) Features() storetest.Features {
	return storetest.Features{Notifications: true, OwnSettle: true, Archive: true, Patience: h.patience}
}

// suiteTx gives a Tx the suite's form.
type suiteTx struct{ *Tx }

func (tx suiteTx) Commit(context.Context) error { return tx.Tx.Commit() }

func (tx suiteTx) Rollback(context.Context) error { return tx.Tx.Rollback() }
