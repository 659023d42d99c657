package storetest

import (
	"context"
	"errors"
	"time"

	"github.com/outboxrelay/outbox"
)

func waitCases() []Case {
	return []Case{
		{"Wait returns at its time", Prompt, waitEnds},
		{"Wait returns with its context's error", Prompt, waitCancelled},
		{"Wait returns early after a commit", Prompt, waitWokenByCommit},
		{"Wait returns early after messages were given back", Prompt, waitWokenByGiveBack},
		{"Wait returns early when a key is free for another lane", Prompt, waitWokenByFreedKey},
	}
}

// far is a time to wait for that no case reaches.
const far = time.Hour

// waker is a Store of another process, listening if it has to, until the case ends.
func (e *env) waker() outbox.Store {
	e.Helper()
	store := e.h.Open(e.TB)
	if l, ok := store.(outbox.Listener); ok {
		ctx, cancel := context.WithCancel(e.ctx)
		done := make(chan struct{})
		go func() {
			defer close(done)
			l.Listen(ctx)
		}()
		e.Cleanup(func() {
			cancel()
			<-done
		})
	}
	return store
}

func waitEnds(e *env) {
	ctx, cancel := context.WithTimeout(e.ctx, e.patience)
	defer cancel()
	if err := e.waker().Wait(ctx, time.Now().Add(20*time.Millisecond)); err != nil {
		e.Errorf("Wait returned %v", err)
	}
}

func waitCancelled(e *env) {
	ctx, cancel := context.WithCancel(e.ctx)
	cancel()
	if err := e.waker().Wait(ctx, time.Now().Add(far)); !errors.Is(err, context.Canceled) {
		e.Errorf("Wait returned %v, want that its context was cancelled", err)
	}
}

// wakes demands that Wait returns after act. What happens while Wait is just beginning may be missed by a
// store, so act is repeated until Wait returns.
func (e *env) wakes(act func()) {
	e.Helper()
	if !e.h.Features().Notifications {
		e.Skip("the store has no notifications")
	}
	store := e.waker()
	e.settleDown(store)
	ctx, cancel := context.WithTimeout(e.ctx, e.patience)
	defer cancel()
	woken := make(chan error, 1)
	go func() { woken <- store.Wait(ctx, time.Now().Add(far)) }()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		act()
		select {
		case err := <-woken:
			e.must(err)
			return
		case <-tick.C:
		}
	}
}

// settleDown waits until the store has nothing to tell of what happened before, so that the next wake-up is
// the act's.
func (e *env) settleDown(store outbox.Store) {
	e.Helper()
	const quiet = 50 * time.Millisecond
	ctx, cancel := context.WithTimeout(e.ctx, e.patience)
	defer cancel()
	for start := time.Now(); time.Since(start) < e.patience; {
		until := time.Now().Add(quiet)
		e.must(store.Wait(ctx, until))
		if !time.Now().Before(until) {
			return
		}
	}
	e.Fatal("Wait returns early although nothing happens")
}

func waitWokenByCommit(e *env) {
	e.wakes(func() { e.publish(msg("a", "", "news")) })
}

func waitWokenByGiveBack(e *env) {
	e.publish(msg("a", "", "one"))
	r := e.relay()
	e.wakes(func() { r.settled(outcomes(outbox.GivenBack, r.takes("one")...)...) })
}

func waitWokenByFreedKey(e *env) {
	a, b := e.relay(lane(defaultLane, "a")), e.relay(lane(defaultLane, "b"))
	const turns = 500
	for range turns {
		e.publish(msg("a", "k", "for a"), msg("b", "k", "for b"))
	}
	turn := 0
	e.wakes(func() {
		if turn++; turn > turns {
			e.Fatal("Wait did not return")
		}
		a.deliver(a.takes("for a")...)
		b.deliver(b.takes("for b")...)
	})
}
