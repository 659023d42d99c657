package storetest

import (
	"context"
	"errors"
	"math"
	"time"

	"github.com/outboxrelay/outbox"
)

func waitCases() []Case {
	return []Case{
		{"Wait returns at its time", Prompt, waitEnds},
		{"Wait returns with its context's error", Prompt, waitCancelled},
		{"Wait returns early after a commit", Prompt, waitWokenByCommit},
		{"Wait returns early after messages were given back", Prompt, waitWokenByGiveBack},
		{"a wake-up between looking and waiting is not lost", Prompt, wakeUpBeforeWait},
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
	if _, err := e.waker().Wait(ctx, math.MaxUint64, time.Now().Add(20*time.Millisecond)); err != nil {
		e.Errorf("Wait returned %v", err)
	}
}

func waitCancelled(e *env) {
	ctx, cancel := context.WithCancel(e.ctx)
	cancel()
	if _, err := e.waker().Wait(ctx, math.MaxUint64, time.Now().Add(far)); !errors.Is(err, context.Canceled) {
		e.Errorf("Wait returned %v, want that its context was cancelled", err)
	}
}

// wakes demands that Wait returns after act. The act is repeated until it does: a store whose connection is
// being made anew may miss one.
func (e *env) wakes(act func()) {
	e.Helper()
	if !e.h.Features().Notifications {
		e.Skip("the store has no notifications")
	}
	store := e.waker()
	seen := e.settleDown(store)
	ctx, cancel := context.WithTimeout(e.ctx, e.patience)
	defer cancel()
	woken := make(chan error, 1)
	go func() {
		_, err := store.Wait(ctx, seen, time.Now().Add(far))
		woken <- err
	}()
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

// settleDown waits until the store has nothing to tell of what happened before, and returns the count of
// wake-ups until then.
func (e *env) settleDown(store outbox.Store) (seen uint64) {
	e.Helper()
	quiet := min(50*time.Millisecond, e.patience/5)
	ctx, cancel := context.WithTimeout(e.ctx, e.patience)
	defer cancel()
	for start := time.Now(); time.Since(start) < e.patience; {
		until := time.Now().Add(quiet)
		count, err := store.Wait(ctx, seen, until)
		e.must(err)
		if count == seen && !time.Now().Before(until) {
			return seen
		}
		seen = count
	}
	e.Fatal("Wait returns early although nothing happens")
	return 0
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

func wakeUpBeforeWait(e *env) {
	if !e.h.Features().Notifications {
		e.Skip("the store has no notifications")
	}
	store := e.waker()
	seen := e.settleDown(store)
	ctx, cancel := context.WithTimeout(e.ctx, e.patience)
	defer cancel()
	e.publish(msg("a", "", "news"))
	for range 2 {
		count, err := store.Wait(ctx, seen, time.Now().Add(far))
		e.must(err)
		if count <= seen {
			e.Fatalf("Wait was woken and counts %d wake-ups after %d", count, seen)
		}
	}
}
