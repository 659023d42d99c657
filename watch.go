package outbox

import (
	"log/slog"
	"runtime"
	"strconv"
	"strings"
	"time"
)

const (
	watchInterval   = time.Second
	summaryInterval = time.Minute
	// stuckGrace is how long a handler may take to notice that its context is over.
	stuckGrace = 2 * time.Second
)

// watch looks after what no other loop notices by itself: handlers that ignore their cancelled context, a
// lease that has ended by the wall clock while the process was suspended, and the summary line. It tells the hook of the
// store's stream.
func (r *running) watch() {
	ticker := time.NewTicker(watchInterval)
	defer ticker.Stop()
	summary := time.Now()
	r.tellStreaming()
	defer r.tellStreaming()
	for {
		select {
		case <-r.done:
			return
		case now := <-ticker.C:
			r.ticked.Store(now.UnixNano())
			r.checkLease(now)
			r.reportStuck(now)
			r.tellStreaming()
			for _, l := range r.lanes {
				l.lookForProgress(now)
			}
			if now.Sub(summary) >= summaryInterval {
				summary = now
				r.logSummary("relay summary")
			}
		}
	}
}

// checkLease notices a lease that has ended by a clock that no timer follows.
func (r *running) checkLease(now time.Time) {
	if s := r.session.Load(); s != nil && !s.valid(now) {
		s.lose()
	}
}

func (r *running) reportStuck(now time.Time) {
	for _, l := range r.lanes {
		for _, w := range l.stuckWorkers(now, stuckGrace) {
			r.logStuck(l, w)
		}
	}
}

// logStuck reports a worker's attempt once.
func (r *running) logStuck(l *lane, w *worker) {
	a := w.current.Load()
	if a == nil || a.reported.Swap(true) {
		return
	}
	took := time.Since(a.began)
	r.log.Error("handler ignores its cancelled context", append(a.subject(l), inWords("running", took), slog.String("stack", stackOf(w.id.Load())))...)
	r.event(Event{Kind: EventStuck, Destination: l.name, Delivery: a.d, Count: a.messages(), Took: took})
}

// logAbandoned names a handler that the relay no longer waits for, and counts its messages.
func (r *running) logAbandoned(l *lane, w *worker) int {
	r.logStuck(l, w)
	a := w.current.Load()
	if a == nil {
		return 0
	}
	r.log.Error("handler abandoned, its message stays held until the lease lapses", a.subject(l)...)
	return a.messages()
}

// stuckWorkers returns the attempts that have outlived their context by grace.
func (l *lane) stuckWorkers(now time.Time, grace time.Duration) (stuck []*worker) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for w := range l.workers {
		if a := w.current.Load(); a != nil && a.overdue(now, grace) {
			stuck = append(stuck, w)
		}
	}
	return stuck
}

// goroutineID reads the calling goroutine's number from its stack: it is what finds a stuck handler's stack
// among all others, and nothing depends on it.
func goroutineID() int64 {
	var buf [64]byte
	header := buf[:runtime.Stack(buf[:], false)]
	const skip = len("goroutine ")
	var n int64
	for _, c := range header[min(skip, len(header)):] {
		if c < '0' || c > '9' {
			break
		}
		n = n*10 + int64(c-'0')
	}
	return n
}

// stackOf returns the stack of a goroutine, empty if it is not found in the first MiB of all stacks.
func stackOf(id int64) string {
	buf := make([]byte, 1<<20)
	all := string(buf[:runtime.Stack(buf, true)])
	header := "goroutine " + strconv.FormatInt(id, 10) + " "
	for stack := range strings.SplitSeq(all, "\n\n") {
		if strings.HasPrefix(stack, header) {
			return stack
		}
	}
	return ""
}
