package outbox

import (
	"fmt"
	"sync"
	"time"
)

// Health is how a relay is doing, as it knows by itself: nothing is asked for it.
type Health struct {
	// Live: its loops go round. Neither the database nor a destination can change that; a restart may help.
	Live bool
	// Ready: it registered, holds its lease, claims, stores results, can reach a destination, and does not stop. A relay
	// that is disabled is ready.
	Ready bool
	// Problems says why it is not live or not ready, in words. Empty if it is both.
	Problems []string
	// Running: Run has begun and not returned.
	Running bool
	// Stopping: it takes nothing new any more.
	Stopping bool
	// Relay is its id with the store; zero before it registered.
	Relay ID
	// LeaseLeft is how long it may deliver without another heartbeat.
	LeaseLeft time.Duration
	Lanes     []LaneHealth
	Counts    Counts
	// Sample is what this relay saw when it last looked at the outbox, if it is the one that looks.
	Sample *Sample
	// Streaming is how the store's stream of new messages is doing; nil if the store has none.
	Streaming *Streaming
}

// LaneHealth is one destination of a relay.
type LaneHealth struct {
	Destination string
	Slots       int
	InFlight    int           // messages held
	Unsettled   int           // messages whose result is not stored yet
	Progress    time.Duration // since it last claimed, or a result came
	Fault       *Fault
}

const (
	// tickLimit is how long the relay's own watch may be late before it is not live.
	tickLimit = 30 * time.Second
	// callLimit is how long a call of the store may take beyond its deadline, which it ignores.
	callLimit = 30 * time.Second
	// troubleLimit is how long a call of the store may go on failing before the relay is not ready.
	troubleLimit = 5 * time.Second
	// progressLimit is how long a lane may do nothing beyond what it may wait for by its settings.
	progressLimit = 30 * time.Second
)

// Health tells how the relay is doing. It is cheap and may be called at any time.
func (r *Relay) Health() Health {
	rn := r.current.Load()
	switch {
	case r.cfg.DisableRelay:
		return Health{Live: true, Ready: true}
	case rn == nil:
		return Health{Live: true, Problems: []string{"the relay has not been started"}}
	}
	return rn.health(time.Now())
}

func (r *running) health(now time.Time) Health {
	h := Health{Running: !r.isOver(), Counts: r.counters.counts(), Sample: r.lastSample.Load(), Streaming: r.streaming()}
	unlive := r.unlive(now)
	h.Live = len(unlive) == 0
	h.Problems = append(unlive, r.unready(&h, now)...)
	h.Ready = len(h.Problems) == 0
	return h
}

func (r *running) isOver() bool {
	select {
	case <-r.done:
		return true
	default:
		return false
	}
}

// unlive is what a restart may cure.
func (r *running) unlive(now time.Time) (problems []string) {
	if r.isOver() {
		return nil
	}
	if late := now.Sub(time.Unix(0, r.ticked.Load())); late > tickLimit {
		problems = append(problems, fmt.Sprintf("the relay's watch has stood still for %s", inSeconds(late)))
	}
	limit := callTimeout(r.cfg.Lease) + callLimit
	for name, since := range r.calls.underWay() {
		if took := now.Sub(since); took > max(limit, maxCallTimeout+callLimit) {
			problems = append(problems, fmt.Sprintf("a call of the store (%s) has hung for %s and ignores its deadline", name, inSeconds(took)))
		}
	}
	return problems
}

// unready is what keeps the relay from delivering, and fills in what it looked at.
func (r *running) unready(h *Health, now time.Time) (problems []string) {
	s := r.session.Load()
	switch {
	case !h.Running:
		problems = append(problems, "the relay has stopped")
	case s == nil:
		problems = append(problems, "the relay has not registered with the store yet")
	default:
		h.Relay, h.Stopping, h.LeaseLeft = s.id, s.stopping.Load(), s.left(now)
		if h.Stopping {
			problems = append(problems, "the relay is stopping")
		} else if !s.valid(now) {
			problems = append(problems, "the relay's lease is over")
		}
	}
	problems = append(problems, r.troubles.lasting(now)...)
	return append(problems, r.unreadyLanes(h, now)...)
}

func (r *running) unreadyLanes(h *Health, now time.Time) (problems []string) {
	faulty := 0
	for _, l := range r.lanes {
		lh := l.health(now)
		h.Lanes = append(h.Lanes, lh)
		limit := r.patience() + progressLimit
		switch {
		case lh.Fault != nil:
			faulty++
		case h.Running && lh.Progress > limit:
			problems = append(problems, fmt.Sprintf("destination %s has made no progress for %s", l.name, inSeconds(lh.Progress)))
		}
	}
	if faulty > 0 && faulty == len(r.lanes) {
		problems = append(problems, "no destination takes messages")
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if h.Running && h.Relay != (ID{}) && len(r.unclaimed) > faulty {
		problems = append(problems, fmt.Sprintf("%d of %d destinations have not claimed yet", len(r.unclaimed), len(r.lanes)))
	}
	return problems
}

// patience is the longest time between two signs of a lane that works.
func (r *running) patience() time.Duration {
	limit := max(r.cfg.PollInterval, r.cfg.HandlerTimeout)
	for _, rule := range r.cfg.Rules {
		limit = max(limit, rule.Timeout)
	}
	return limit
}

// progressed notes that a claim was answered.
func (l *lane) progressed() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.progress = time.Now()
}

// lookForProgress notes that a delivery has ended since it last looked: deliveries themselves take no clock.
func (l *lane) lookForProgress(now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.released {
		l.progress, l.released = now, false
	}
}

func (l *lane) health(now time.Time) LaneHealth {
	l.lookForProgress(now)
	l.mu.Lock()
	defer l.mu.Unlock()
	return LaneHealth{Destination: l.name, Slots: l.slots, InFlight: l.held, Unsettled: l.unsettled,
		Progress: now.Sub(l.progress), Fault: l.faults.worst()}
}

func inSeconds(d time.Duration) time.Duration { return d.Round(time.Second) }

// calls are the store's calls under way, by what they are for.
type calls struct {
	mu    sync.Mutex
	next  int
	begun map[int]startedCall
}

type startedCall struct {
	name string
	at   time.Time
}

// begin notes a call; the returned function notes its end.
func (c *calls) begin(name string) (end func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.begun == nil {
		c.begun = map[int]startedCall{}
	}
	id := c.next
	c.next++
	c.begun[id] = startedCall{name, time.Now()}
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.begun, id)
	}
}

// underWay are the oldest calls of each name.
func (c *calls) underWay() map[string]time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	oldest := map[string]time.Time{}
	for _, call := range c.begun {
		if at, ok := oldest[call.name]; !ok || call.at.Before(at) {
			oldest[call.name] = call.at
		}
	}
	return oldest
}
