package sqlitestore

import "sync"

// signal counts wake-ups and lets any number of goroutines wait for one later than the count they have seen, so
// that a wake-up between looking for work and waiting is not missed.
type signal struct {
	mu    sync.Mutex
	count uint64
	next  chan struct{} // closed by the next wake-up
}

func newSignal() *signal { return &signal{next: make(chan struct{})} }

func (s *signal) wake() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.count++
	close(s.next)
	s.next = make(chan struct{})
}

// seen returns the count so far.
func (s *signal) seen() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.count
}

// after returns a channel that is closed as soon as the count is above seen.
func (s *signal) after(seen uint64) <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.count > seen {
		done := make(chan struct{})
		close(done)
		return done
	}
	return s.next
}
