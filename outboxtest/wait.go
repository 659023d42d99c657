package outboxtest

import (
	"context"
	"time"
)

// Wait returns at the given time of the local clock, or early: after a commit that published, when messages
// were given back, when a settlement freed a key for another lane; see outbox.Store.
func (s *Store) Wait(ctx context.Context, seen uint64, until time.Time) (uint64, error) {
	if err := ctx.Err(); err != nil {
		return seen, err
	}
	timer := time.NewTimer(time.Until(until))
	defer timer.Stop()
	count, wake := s.wakeUps()
	if count > seen {
		return count, nil
	}
	select {
	case <-ctx.Done():
		return seen, ctx.Err()
	case <-timer.C:
	case <-wake:
	}
	count, _ = s.wakeUps()
	return count, nil
}

// wakeUps returns how many there were, and what the next one closes.
func (s *Store) wakeUps() (uint64, <-chan struct{}) {
	b := s.box
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.notified, b.wake
}

// notify wakes every Wait. It is called with the mutex held.
func (b *box) notify() {
	b.notified++
	close(b.wake)
	b.wake = make(chan struct{})
}
