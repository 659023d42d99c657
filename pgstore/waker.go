package pgstore

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

const (
	// wakeWindow is the least time between two notifications of a Store that publishes much. A commit that notifies
	// takes turns with all others of the database that do, and the turn includes its way to the disk.
	wakeWindow = 20 * time.Millisecond
	// wakeShortWindow is that of a Store that publishes less than wakeBusy times per second: too seldom to get into
	// anybody's way, and each message is worth a wake-up at once.
	wakeShortWindow = 2500 * time.Microsecond
	wakeBusy        = 400
	wakeMeasure     = 100 * time.Millisecond // how long publishings are counted
	// wakeShare: a transaction that published some time ago and is still open is looked at again after this part of
	// that time, at the latest after wakeLongest.
	wakeShare   = 8
	wakeLongest = 250 * time.Millisecond
	// wakeGiveUp is how long after its publishing a transaction is looked at. If it commits later than that, polling
	// finds its messages.
	wakeGiveUp = time.Minute
	// wakePatience bounds a look, and so the time that Close takes.
	wakePatience = time.Second
)

// waker tells relays that a Store has published, by few notifications. The first publishing of a window notifies in
// its own transaction. The transactions of all others are followed: when the window ends, and then at growing
// distances for as long as they are open, the server is asked whether one has ended, and if so relays are woken from
// outside. So it does not matter what becomes of the transaction that notified: nobody relies on it but itself.
//
// The loop runs only while there is something to follow.
type waker struct {
	ask askFunc
	log *slog.Logger

	mu      sync.Mutex
	last    time.Time     // of the last notification, or of the publishing that was to bring it
	window  time.Duration // the least time between two of them now
	counted time.Time     // since when publishings are counted
	count   int
	open    map[string]*publishing // by the id of the transaction
	certain bool                   // something was published and has been committed
	plan    time.Time              // of the next look
	retry   time.Time              // not before this, after a look that failed
	looping bool
	closed  bool

	kick, stop chan struct{}
	loops      sync.WaitGroup
}

// askFunc wakes relays, if that is certain to be needed or one of the transactions has ended, and returns the
// transactions that still run.
type askFunc func(ctx context.Context, ids []string, certain bool) (running []string, woke bool, err error)

// publishing is a transaction that published without a notification.
type publishing struct{ last, look time.Time }

func newWaker(ask askFunc, log *slog.Logger) *waker {
	return &waker{ask: ask, log: log, window: wakeShortWindow, open: map[string]*publishing{},
		kick: make(chan struct{}, 1), stop: make(chan struct{})}
}

// turn reports whether a publishing is to notify in its own transaction. After close each does.
func (w *waker) turn(now time.Time) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return true
	}
	w.measure(now)
	if now.Sub(w.last) < w.window {
		return false
	}
	w.last = now
	return true
}

// measure counts a publishing and chooses the window; the lock is held.
func (w *waker) measure(now time.Time) {
	if passed := now.Sub(w.counted); passed >= wakeMeasure {
		w.window = wakeShortWindow
		if float64(w.count) > wakeBusy*passed.Seconds() {
			w.window = wakeWindow
		}
		w.counted, w.count = now, 0
	}
	w.count++
}

// follow takes care of a transaction that has published without a notification.
func (w *waker) follow(id string, now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.open[id] = &publishing{last: now, look: w.windowEnd(now)}
	w.planLook(w.open[id].look)
}

// wake wakes relays for something that is committed.
func (w *waker) wake(now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.certain = true
	w.planLook(w.windowEnd(now))
}

// isClosed: nobody looks any more.
func (w *waker) isClosed() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.closed
}

// windowEnd is when the next notification may be sent; the lock is held.
func (w *waker) windowEnd(now time.Time) time.Time {
	if end := w.last.Add(w.window); end.After(now) {
		return end
	}
	return now
}

// planLook makes the loop look at that time or before; the lock is held.
func (w *waker) planLook(at time.Time) {
	if at.Before(w.retry) {
		at = w.retry
	}
	switch {
	case w.closed:
	case !w.looping:
		w.looping, w.plan = true, at
		w.loops.Go(w.loop)
	case at.Before(w.plan):
		w.plan = at
		select {
		case w.kick <- struct{}{}:
		default:
		}
	}
}

func (w *waker) loop() {
	failures := 0
	for {
		w.mu.Lock()
		timer := time.NewTimer(time.Until(w.plan))
		w.mu.Unlock()
		select {
		case <-timer.C:
			failures = w.look(failures, false)
		case <-w.kick:
			timer.Stop()
		case <-w.stop:
			timer.Stop()
			w.look(failures, true)
			return
		}
		if w.rest() {
			return
		}
	}
}

// close wakes relays for what is pending and ends the loop.
func (w *waker) close() {
	w.mu.Lock()
	before := w.closed
	w.closed = true
	w.mu.Unlock()
	if !before {
		close(w.stop)
	}
	w.loops.Wait()
}

// rest plans the next look, or reports that there is none and the loop ends.
func (w *waker) rest() (over bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.open) == 0 && !w.certain {
		w.looping = false
		return true
	}
	now := time.Now()
	w.plan = now.Add(wakeGiveUp)
	if w.certain {
		w.plan = w.windowEnd(now)
	}
	for _, p := range w.open {
		w.plan = earlier(w.plan, p.look)
	}
	if w.plan.Before(w.retry) {
		w.plan = w.retry
	}
	return false
}

// wakeRetry is the time between two looks that fail: 100 ms, doubling to 5 s.
func wakeRetry(failures int) time.Duration {
	return min(100*time.Millisecond<<min(failures-1, 6), 5*time.Second)
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// look asks the server about everything that is pending; the last look wakes in any case. It returns how many looks
// in a row have failed.
func (w *waker) look(failures int, last bool) int {
	ids, certain := w.pending()
	if len(ids) == 0 && !certain {
		return failures
	}
	ctx, cancel := context.WithTimeout(context.Background(), wakePatience)
	defer cancel()
	running, woke, err := w.ask(ctx, ids, certain || last)
	if err != nil {
		if failures == 0 {
			w.log.WarnContext(ctx, "cannot notify relays of what was published, they find it by polling", "error", err)
		}
		w.keep(ids, certain, failures+1)
		return failures + 1
	}
	if failures > 0 {
		w.log.InfoContext(ctx, "notifying relays of what is published again")
	}
	w.answered(ids, running, woke)
	return 0
}

// pending hands over what is to be asked about.
func (w *waker) pending() (ids []string, certain bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	ids = make([]string, 0, len(w.open))
	for id := range w.open {
		ids = append(ids, id)
	}
	certain, w.certain = w.certain, false
	return ids, certain
}

// answered forgets the transactions that have ended, and plans when to look at the others again.
func (w *waker) answered(asked, running []string, woke bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	if woke {
		w.last = now
	}
	runs := make(map[string]bool, len(running))
	for _, id := range running {
		runs[id] = true
	}
	for _, id := range asked {
		p := w.open[id]
		if !runs[id] || now.Sub(p.last) > wakeGiveUp {
			delete(w.open, id)
			continue
		}
		p.look = now.Add(min(max(now.Sub(p.last)/wakeShare, w.window), wakeLongest))
	}
}

// keep is for a look that failed. Publishings don't put the next one off, nor bring it forward.
func (w *waker) keep(asked []string, certain bool, failures int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.retry = time.Now().Add(wakeRetry(failures))
	w.certain = w.certain || certain
	for _, id := range asked {
		if time.Since(w.open[id].last) > wakeGiveUp {
			delete(w.open, id)
		}
	}
}
