package pgstore

import "sync"

// signal counts wake-ups and lets any number of goroutines wait for one later than the count they have seen, so
// that a wake-up between looking for work and waiting is not missed.
type signal struct {
	mu    sync.Mutex
	count uint64
	told  uint64        // without arrivals
	next  chan struct{} // closed by the next wake-up
}

func newSignal() *signal { return &signal{next: make(chan struct{})} }

// wake tells that something may have changed in the database.
func (s *signal) wake() { s.add(1) }

// arrive tells that the stream has brought something. That alone is no reason to look for anything else.
func (s *signal) arrive() { s.add(0) }

func (s *signal) add(told uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.count++
	s.told += told
	close(s.next)
	s.next = make(chan struct{})
}

// seen returns the count so far.
func (s *signal) seen() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.count
}

// heard returns the count without arrivals.
func (s *signal) heard() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.told
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
