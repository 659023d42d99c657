package outboxtest

import (
	"context"
	"time"
)

// Wait returns at the given time of the local clock, or early: after a commit that published, when messages
// were given back, when a settlement freed a key for another lane. What happened since this Store's last Wait
// counts too.
func (s *Store) Wait(ctx context.Context, until time.Time) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	wake, news := s.listen()
	if news {
		return nil
	}
	timer := time.NewTimer(time.Until(until))
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
	case <-wake:
		s.listen()
	}
	return nil
}

// listen reports whether there were notifications since it was last asked.
func (s *Store) listen() (wake <-chan struct{}, news bool) {
	b := s.box
	b.mu.Lock()
	defer b.mu.Unlock()
	news = s.seen != b.notified
	s.seen = b.notified
	return b.wake, news
}

// notify wakes every Wait. It is called with the mutex held.
func (b *box) notify() {
	b.notified++
	close(b.wake)
	b.wake = make(chan struct{})
}
