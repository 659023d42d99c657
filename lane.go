package outbox

import (
	"sync"
	"time"
)

const (
	// slotPatience is how long the first free slot waits for others before a claim is made for few.
	slotPatience = 2 * time.Millisecond
	// hotPoll is the pause between claims that find nothing while messages are coming in.
	hotPoll = 5 * time.Millisecond
	// hotTime is how long after the last message or wake-up that goes on.
	hotTime = time.Second
	// forever is longer than anything waits without a signal.
	forever = time.Hour
)

// lane is one destination of one relay: its queue, slots, workers and breaker.
type lane struct {
	*laneSpec
	r       *running
	breaker *breaker
	faults  faults
	signal  chan struct{} // room may have come; one pending signal is enough

	mu        sync.Mutex
	queue     []run // from head on: runs that no worker has taken
	head      int
	workers   map[*worker]struct{}
	starting  bool          // a worker has been started and has not taken a run yet
	idle      chan struct{} // closed while there is no worker
	held      int           // messages claimed whose delivery has not ended: never more than slots
	unsettled int           // messages whose delivery has ended and whose outcome is not stored
	bytes     int64         // payloads of the held ones
	freeSince time.Time     // when the first of the free slots came free
	progress  time.Time     // when a claim was last answered, or a delivery was found to have ended
	released  bool          // a delivery has ended since then
	wanting   bool          // the loop waits for room
	starved   bool          // the loop waits for room of any size
	poked     bool          // work may have come since the last claim

	// the loop's own
	lastWork time.Time
	pause    time.Duration
	backoff  backoff
	check    checker
}

func newLane(r *running, spec *laneSpec) *lane {
	idle := make(chan struct{})
	close(idle)
	l := &lane{
		laneSpec: spec, r: r, breaker: newBreaker(spec.sink), signal: make(chan struct{}, 1),
		workers: map[*worker]struct{}{}, idle: idle, backoff: storeBackoff(), progress: r.began,
	}
	l.check = newChecker(l)
	return l
}

// loop claims and dispatches for one session until it stops, or in a relay that runs until idle, until
// there is nothing to do.
func (l *lane) loop(s *session) {
	l.lastWork, l.pause = time.Now(), hotPoll
	for {
		limit, ok := l.awaitRoom(s)
		if !ok {
			return
		}
		res := l.claim(s, limit)
		switch {
		case res.hopeless && l.r.once:
			return
		case res.failed:
			s.sleep(l.backoff.next())
		case res.idle && l.r.once:
			return
		case res.starved:
			l.await(s, l.r.cfg.PollInterval)
		case !res.more:
			l.rest(s, res.nextDue)
		}
	}
}

// awaitRoom waits until the lane may claim, and returns how many messages. It returns false when the session
// stops, or when a relay that runs until idle can do nothing more here.
func (l *lane) awaitRoom(s *session) (int, bool) {
	for s.waits.Err() == nil {
		now := time.Now()
		limit, wait := l.room(now)
		g := l.breaker.gate(now)
		switch {
		case g.all && l.r.once && l.empty():
			return 0, false
		case g.all:
			wait = untilOpen(g, now)
		case g.probe && !l.empty(): // what is still here goes first, and may be the probe
			wait = hotPoll
		case g.probe && limit > 0:
			if l.check.probe(s, now) && l.check.pinger == nil {
				return 1, true
			}
			continue
		case g.probe:
		case l.check.due(s, now):
			l.check.run(s)
			continue
		case limit > 0:
			return limit, true
		}
		l.await(s, wait)
	}
	return 0, false
}

func untilOpen(g gate, now time.Time) time.Duration {
	if g.opens.IsZero() {
		return forever
	}
	return g.opens.Sub(now)
}

// room returns how many messages may be claimed now; zero: look again after wait, or when signalled.
func (l *lane) room(now time.Time) (limit int, wait time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	free := l.slots - l.held
	waited := now.Sub(l.freeSince)
	switch {
	case free > 0 && l.fits() && (l.enough() || waited >= slotPatience):
		l.wanting = false
		return min(free, l.batchSize), 0
	case free > 0 && l.fits():
		wait = slotPatience - waited
	default:
		wait = forever
	}
	l.wanting = true
	return 0, wait
}

// fits: neither unsettled outcomes nor payloads forbid a claim.
func (l *lane) fits() bool {
	return l.unsettled <= l.slots && (l.held == 0 || l.bytes <= l.batchBytes*3/4)
}

// enough: a quarter of the slots is free.
func (l *lane) enough() bool { return (l.slots-l.held)*4 >= l.slots }

// empty: nothing of this lane is claimed.
func (l *lane) empty() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.held == 0 && l.unsettled == 0
}

// release frees the slot of a message whose delivery has ended.
func (l *lane) release(bytes int, unsettled bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	first := l.held == l.slots
	l.held--
	l.bytes -= int64(bytes)
	if unsettled {
		l.unsettled++
	}
	if first {
		l.freeSince = time.Now()
	}
	l.released = true
	if l.starved || l.wanting && (first || l.enough() || l.held == 0) {
		l.kick()
	}
}

// settled tells that n outcomes are stored; with keys, messages behind them may have become free.
func (l *lane) settled(n int, keys bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.unsettled -= n
	if keys || l.r.once && l.held == 0 && l.unsettled == 0 {
		l.poked = true
		l.kick()
	} else if l.wanting && l.fits() {
		l.kick()
	}
}

func (l *lane) kick() {
	select {
	case l.signal <- struct{}{}:
	default:
	}
}

// poke tells that there may be something to claim; it counts until the next claim.
func (l *lane) poke() {
	l.mu.Lock()
	l.poked = true
	l.mu.Unlock()
	l.kick()
}

// await waits for a signal, at most d.
func (l *lane) await(s *session, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-l.signal:
	case <-timer.C:
	case <-s.waits.Done():
	}
}

// rest waits, after a claim that found everything there was, for a wake-up, the next due message, the breaker
// or the poll interval. Until hotTime after the last message the interval is hotPoll, then it doubles.
func (l *lane) rest(s *session, nextDue time.Duration) {
	now := time.Now()
	if now.Sub(l.lastWork) < hotTime {
		l.pause = hotPoll
	} else {
		l.pause = min(2*l.pause, l.r.cfg.PollInterval)
	}
	pause := jittered(min(l.pause, l.r.cfg.PollInterval))
	if nextDue > 0 {
		pause = min(pause, nextDue)
	}
	if g := l.breaker.gate(now); !g.opens.IsZero() {
		pause = min(pause, max(g.opens.Sub(now), 0))
	}
	l.r.event(Event{Kind: EventWaiting, Destination: l.name})
	l.awaitPoke(s, now.Add(pause))
}

// awaitPoke waits until there may be something to claim, or until the time.
func (l *lane) awaitPoke(s *session, until time.Time) {
	for s.waits.Err() == nil {
		if l.takePoke() {
			l.lastWork = time.Now()
			return
		}
		left := time.Until(until)
		if left <= 0 {
			return
		}
		l.await(s, left)
	}
}

func (l *lane) takePoke() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	poked := l.poked
	l.poked = false
	return poked
}

// awaitWorkers waits until no worker is left; false: one of the limits came first.
func (l *lane) awaitWorkers(over, short <-chan struct{}) bool {
	l.mu.Lock()
	idle := l.idle
	l.mu.Unlock()
	select {
	case <-idle:
		return true
	case <-over:
	case <-short:
	}
	return false
}
