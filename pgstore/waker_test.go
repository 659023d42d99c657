package pgstore

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// fakeServer answers a waker: it knows which transactions run, and notes when relays were woken.
type fakeServer struct {
	mu      sync.Mutex
	running map[string]bool
	asked   []time.Time
	woken   []time.Time
	err     error
}

func (s *fakeServer) ask(_ context.Context, ids []string, certain bool) (running []string, woke bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked = append(s.asked, time.Now())
	if s.err != nil {
		return nil, false, s.err
	}
	for _, id := range ids {
		if s.running[id] {
			running = append(running, id)
		}
	}
	if certain || len(running) < len(ids) {
		s.woken = append(s.woken, time.Now())
		return running, true, nil
	}
	return running, false, nil
}

func (s *fakeServer) begin(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.running[id] = true
}

// end ends a transaction and wakes relays if it notified itself.
func (s *fakeServer) end(id string, notified bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.running, id)
	if notified {
		s.woken = append(s.woken, time.Now())
	}
}

// wokenAfter returns how long after t relays were woken, and false if never.
func (s *fakeServer) wokenAfter(t time.Time) (time.Duration, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, at := range s.woken {
		if !at.Before(t) {
			return at.Sub(t), true
		}
	}
	return 0, false
}

func (s *fakeServer) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err = err
}

func (s *fakeServer) counts() (asked, woken int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.asked), len(s.woken)
}

func (w *waker) isLooping() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.looping
}

// withWaker runs a test on virtual time; it fails if the waker's loop does not end.
func withWaker(t *testing.T, test func(t *testing.T, w *waker, s *fakeServer, log *lockedBuffer)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s, log := &fakeServer{running: map[string]bool{}}, &lockedBuffer{}
		w := newWaker(s.ask, slog.New(slog.NewTextHandler(log, nil)))
		test(t, w, s, log)
		w.close()
	})
}

// publishFor publishes in a transaction that ends after a while. A committed one that wakes nobody soon is an error.
func publishFor(t *testing.T, w *waker, s *fakeServer, id string, d time.Duration, commits bool) {
	s.begin(id)
	notifies := w.turn(time.Now())
	if !notifies {
		w.follow(id, time.Now())
	}
	time.Sleep(d)
	ended := time.Now()
	s.end(id, notifies && commits)
	if !commits {
		return
	}
	// A look may be under way, and the next one awaits the end of its window.
	time.Sleep(wakeLongest + 2*wakeWindow)
	bound := min(max(d/wakeShare, wakeWindow), wakeLongest) + wakeWindow
	if after, ok := s.wokenAfter(ended); !ok || after > bound {
		t.Errorf("transaction %s, open for %v: relays woken %v after its commit (%t), want at most %v", id, d, after, ok, bound)
	}
}

// TestWakerWakesForEachCommit: whatever becomes of the transactions that notify themselves, each commit is followed by a
// wake-up, and there are never more notifications than two per window, one in a transaction and one from outside.
func TestWakerWakesForEachCommit(t *testing.T) {
	for seed := range uint64(20) {
		withWaker(t, func(t *testing.T, w *waker, s *fakeServer, _ *lockedBuffer) {
			random := rand.New(rand.NewPCG(seed, 1))
			begin := time.Now()
			var all sync.WaitGroup
			n := 50 + random.IntN(500)
			for i := range n {
				time.Sleep(time.Duration(random.ExpFloat64() * float64(time.Second) / float64(n)))
				d := time.Duration(random.ExpFloat64() * float64(time.Millisecond))
				if random.IntN(20) == 0 {
					d = rand.N(5 * time.Second)
				}
				commits := random.IntN(4) > 0
				all.Go(func() { publishFor(t, w, s, fmt.Sprint(i), d, commits) })
			}
			all.Wait()
			if _, woken := s.counts(); woken > 2+2*int(time.Since(begin)/wakeShortWindow) {
				t.Errorf("seed %d: woken %d times in %v", seed, woken, time.Since(begin))
			}
		})
	}
}

// TestWakerOfBusyPublisher: many short transactions cost one notification per window and side.
func TestWakerOfBusyPublisher(t *testing.T) {
	withWaker(t, func(t *testing.T, w *waker, s *fakeServer, _ *lockedBuffer) {
		var all sync.WaitGroup
		for i := range 3000 {
			time.Sleep(time.Second / 3000)
			all.Go(func() { publishFor(t, w, s, fmt.Sprint(i), time.Millisecond, true) })
		}
		all.Wait()
		windows := int(time.Second/wakeWindow + wakeMeasure/wakeShortWindow) // until it is known to be busy
		if asked, woken := s.counts(); asked > windows+5 || woken > 2*windows+5 {
			t.Errorf("asked %d times and woken %d times in %d windows", asked, woken, windows)
		}
	})
}

// TestWakerOfQuietPublisher: where few publish, each notifies by its own commit.
func TestWakerOfQuietPublisher(t *testing.T) {
	withWaker(t, func(t *testing.T, w *waker, s *fakeServer, _ *lockedBuffer) {
		for i := range 300 {
			time.Sleep(time.Second / 300)
			if !w.turn(time.Now()) {
				t.Fatalf("transaction %d does not notify", i)
			}
		}
		if asked, _ := s.counts(); asked > 0 {
			t.Errorf("asked %d times", asked)
		}
	})
}

// TestWakerOfForgottenTransaction: it is asked about ever more seldom, and at last not at all.
func TestWakerOfForgottenTransaction(t *testing.T) {
	withWaker(t, func(t *testing.T, w *waker, s *fakeServer, _ *lockedBuffer) {
		w.turn(time.Now())
		s.begin("forgotten")
		w.follow("forgotten", time.Now())
		time.Sleep(time.Hour)
		asked, woken := s.counts()
		if most := int(wakeGiveUp/wakeLongest) + 50; asked > most || asked < 10 || woken != 0 {
			t.Errorf("asked %d times, want 10 to %d, and woken %d times", asked, most, woken)
		}
		if w.isLooping() {
			t.Error("the loop goes on")
		}
	})
}

// TestWakerPublishedAgain: what an old transaction publishes now is followed as closely as what a new one does.
func TestWakerPublishedAgain(t *testing.T) {
	withWaker(t, func(t *testing.T, w *waker, s *fakeServer, _ *lockedBuffer) {
		w.turn(time.Now())
		s.begin("old")
		w.follow("old", time.Now())
		time.Sleep(20 * time.Second)
		w.turn(time.Now())
		w.follow("old", time.Now())
		s.end("old", false)
		ended := time.Now()
		time.Sleep(time.Second)
		if after, ok := s.wokenAfter(ended); !ok || after > 2*wakeWindow {
			t.Errorf("woken after %v (%t)", after, ok)
		}
	})
}

// TestWakerWithoutServer: it tries at growing distances, says so once, and makes up for it.
func TestWakerWithoutServer(t *testing.T) {
	withWaker(t, func(t *testing.T, w *waker, s *fakeServer, log *lockedBuffer) {
		s.fail(errors.New("no server"))
		w.wake(time.Now())
		w.turn(time.Now())
		w.follow("1", time.Now())
		time.Sleep(30 * time.Second)
		if asked, _ := s.counts(); asked < 5 || asked > 20 {
			t.Errorf("asked %d times in 30 s", asked)
		}
		if n := log.count("cannot notify"); n != 1 {
			t.Errorf("said %d times", n)
		}
		s.fail(nil)
		time.Sleep(6 * time.Second)
		if _, woken := s.counts(); woken != 1 || w.isLooping() || log.count("again") != 1 {
			t.Errorf("woken %d times", woken)
		}
	})
}

// TestWakerWithoutServerBesidePublishings: publishings don't put off the next look after one that failed, and nothing is
// remembered for ever.
func TestWakerWithoutServerBesidePublishings(t *testing.T) {
	withWaker(t, func(t *testing.T, w *waker, s *fakeServer, _ *lockedBuffer) {
		publish := func(d time.Duration) {
			for begin, n := time.Now(), 0; time.Since(begin) < d; n++ {
				if !w.turn(time.Now()) {
					w.follow(fmt.Sprint(begin, n), time.Now())
				}
				time.Sleep(2 * time.Millisecond)
			}
		}
		s.fail(errors.New("away"))
		publish(time.Minute)
		asked, _ := s.counts()
		if asked < 10 || asked > 30 {
			t.Errorf("%d looks in a minute without the server, want one about every 5 s", asked)
		}
		s.fail(nil)
		publish(10 * time.Second)
		w.mu.Lock()
		defer w.mu.Unlock()
		if len(w.open) > 100 {
			t.Errorf("%d transactions are followed though all have ended", len(w.open))
		}
	})
}

// TestWakerClose: what is pending is told, once, and then nothing runs any more.
func TestWakerClose(t *testing.T) {
	for name, publish := range map[string]func(w *waker, s *fakeServer){
		"open": func(w *waker, s *fakeServer) {
			s.begin("1")
			w.follow("1", time.Now())
		},
		"committed": func(w *waker, _ *fakeServer) { w.wake(time.Now()) },
	} {
		withWaker(t, func(t *testing.T, w *waker, s *fakeServer, _ *lockedBuffer) {
			w.turn(time.Now())
			publish(w, s)
			w.close()
			w.close()
			if asked, woken := s.counts(); asked != 1 || woken != 1 {
				t.Errorf("%s: asked %d times, woken %d times", name, asked, woken)
			}
			for range 2 {
				if !w.turn(time.Now()) {
					t.Errorf("%s: after close a publishing is silent", name)
				}
			}
			w.follow("2", time.Now())
			w.wake(time.Now())
		})
	}
}

// TestWakerCloseWithNothing: close tells nobody of nothing.
func TestWakerCloseWithNothing(t *testing.T) {
	withWaker(t, func(t *testing.T, w *waker, s *fakeServer, _ *lockedBuffer) {
		w.turn(time.Now())
		w.close()
		if asked, woken := s.counts(); asked+woken != 0 {
			t.Errorf("asked %d times, woken %d times", asked, woken)
		}
	})
}
