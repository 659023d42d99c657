package outbox

import (
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/outboxrelay/outbox/internal/failpoint"
)

// heldClaim is a claim in this relay's hands. Its messages are linked to runs: those of one key that must
// be delivered one after another.
type heldClaim struct {
	session *session
	grip    *grip
	ref     ClaimRef
	ds      []*Delivery
	next    []int32 // index of the next message of the run, -1 at its end; nil if every run has one message
}

// grip is a token that heartbeats name until everything that was claimed under it is settled.
type grip struct {
	token Token
	left  atomic.Int32 // messages not yet settled
}

// run is a part of a claim that one worker delivers in order.
type run struct {
	claim *heldClaim
	first int
}

const noMore = -1

func (c *heldClaim) after(i int) int {
	if c.next == nil {
		return noMore
	}
	return int(c.next[i])
}

// appendRuns splits the claim into runs.
func (c *heldClaim) appendRuns(runs []run, p *policies) []run {
	var last map[string]int // of each key: the run's last message so far
	for i, d := range c.ds {
		if d.Key == "" || p.of(d.Topic).order == OrderNone {
			runs = append(runs, run{c, i})
			continue
		}
		if last == nil {
			last = make(map[string]int, len(c.ds)-i)
		}
		if before, ok := last[d.Key]; ok {
			c.link(before, i)
		} else {
			runs = append(runs, run{c, i})
		}
		last[d.Key] = i
	}
	return runs
}

func (c *heldClaim) link(before, i int) {
	if c.next == nil {
		c.next = make([]int32, len(c.ds))
		for j := range c.next {
			c.next[j] = noMore
		}
	}
	c.next[before] = int32(i)
}

// dispatch hands claimed messages to the lane's workers.
func (l *lane) dispatch(claims []*heldClaim) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.queue, l.head = append(l.queue[:0], l.queue[l.head:]...), 0
	for _, c := range claims {
		for _, d := range c.ds {
			l.bytes += int64(len(d.Payload))
		}
		l.held += len(c.ds)
		l.r.inFlight.Add(int64(len(c.ds)))
		l.r.claimed.Add(int64(len(c.ds)))
		l.queue = c.appendRuns(l.queue, &l.r.policies)
	}
	l.spawn()
}

// spawn starts a worker if there is something for it to do. Only one is starting at any time, and it starts
// the next: handlers that take their time get as many workers as there are runs, while those that return at
// once are served by few, without a goroutine for each message (BenchmarkRelayNoop).
func (l *lane) spawn() {
	if l.starting || l.head == len(l.queue) {
		return
	}
	l.starting = true
	if len(l.workers) == 0 {
		l.idle = make(chan struct{})
	}
	w := &worker{lane: l, fresh: true}
	l.workers[w] = struct{}{}
	go w.work()
}

// worker delivers runs, one message at a time, until the queue is empty.
type worker struct {
	lane    *lane
	fresh   bool // has not taken a run yet
	current atomic.Pointer[attempt]
	id      atomic.Int64 // of its goroutine

	// what is being delivered, for a handler that ends its goroutine
	claim *heldClaim
	at    int
	adm   admission
}

func (w *worker) work() {
	defer w.leave()
	w.id.Store(goroutineID())
	for {
		r, ok := w.take()
		if !ok {
			return
		}
		w.deliverRun(r)
	}
}

// take returns the next run.
func (w *worker) take() (run, bool) {
	l := w.lane
	l.mu.Lock()
	defer l.mu.Unlock()
	if w.fresh {
		w.fresh, l.starting = false, false
	}
	if l.head == len(l.queue) {
		l.queue, l.head = l.queue[:0], 0
		l.forget(w)
		return run{}, false
	}
	r := l.queue[l.head]
	l.queue[l.head] = run{}
	l.head++
	l.spawn()
	return r, true
}

// forget takes a worker off the lane; the lane's lock is held.
func (l *lane) forget(w *worker) {
	if _, ok := l.workers[w]; !ok {
		return
	}
	delete(l.workers, w)
	if len(l.workers) == 0 {
		close(l.idle)
	}
}

// leave ends a worker. A handler that called runtime.Goexit takes its worker along: its attempt has failed.
func (w *worker) leave() {
	if a := w.current.Load(); a != nil {
		now := time.Now()
		a.end(now)
		v := judge(&panicError{errGoexit, debug.Stack()}, nil, w.lane.r.policies.of(a.d.Topic), a.d)
		w.conclude(a, v, now)
		w.endRest(w.claim, w.claim.after(w.at), Unlisted)
	}
	l := w.lane
	l.mu.Lock()
	defer l.mu.Unlock()
	l.forget(w)
	l.spawn()
}

// deliverRun delivers the messages of a run in order. Where one cannot be delivered, so cannot those behind it.
func (w *worker) deliverRun(r run) {
	for i := r.first; i != noMore; i = r.claim.after(i) {
		now := time.Now()
		if kind, stop := w.refuse(r.claim, i, now); stop {
			w.endRest(r.claim, i, kind)
			return
		}
		d := r.claim.ds[i]
		if d.expired(now) {
			w.expire(r.claim, i)
			continue
		}
		if kind := w.deliver(r.claim, i, now); kind == 0 || kind == Retried || kind == GivenBack {
			w.endRest(r.claim, r.claim.after(i), behind(kind))
			return
		}
	}
}

// behind is what becomes of the messages behind one that was not settled for good.
func behind(head OutcomeKind) OutcomeKind {
	if head == Retried {
		return Unlisted
	}
	return head
}

// refuse tells whether a message may not be sent now, and what becomes of it: nothing when the lease is over.
func (w *worker) refuse(c *heldClaim, i int, now time.Time) (kind OutcomeKind, stop bool) {
	switch {
	case !c.session.valid(now):
		c.session.lose()
		return 0, true
	case c.session.stopping.Load():
		return GivenBack, true
	}
	w.adm = w.lane.breaker.admit(c.ds[i].Topic, now)
	return GivenBack, w.adm == refused
}

// endRest ends the messages of a run from i on undelivered; kind zero settles nothing.
func (w *worker) endRest(c *heldClaim, i int, kind OutcomeKind) {
	for ; i != noMore; i = c.after(i) {
		w.lane.finish(c, i, Outcome{Kind: kind})
	}
}

func (w *worker) expire(c *heldClaim, i int) {
	d, l := c.ds[i], w.lane
	w.report(d.Topic, verdict{}, time.Time{})
	if l.r.policies.of(d.Topic).onExpired != ExpiredDead {
		l.finish(c, i, Outcome{Kind: Expired})
		return
	}
	o := Outcome{Kind: Died, Attempts: d.Attempt - 1, Class: ClassExpired, Text: "expired before it was delivered"}
	l.r.logDead(l, d, o)
	l.finish(c, i, o)
}

// deliver makes one attempt.
func (w *worker) deliver(c *heldClaim, i int, now time.Time) OutcomeKind {
	l, d := w.lane, c.ds[i]
	p := l.r.policies.of(d.Topic)
	a := &attempt{session: c.session, d: d, began: now, deadline: now.Add(p.timeout)}
	w.claim, w.at = c, i
	l.r.event(Event{Kind: EventDelivering, Destination: l.name, Delivery: d})
	w.current.Store(a)
	failpoint.Hit("deliver.before")
	err := w.call(a)
	failpoint.Hit("deliver.after")
	ended := time.Now()
	cause := a.end(ended)
	l.r.event(Event{Kind: EventResult, Destination: l.name, Delivery: d, Took: ended.Sub(now), Err: err})
	v := judge(err, cause, p, d)
	w.conclude(a, v, ended)
	return v.kind
}

// call runs the sink; a panic becomes its error.
func (w *worker) call(a *attempt) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &panicError{v, debug.Stack()}
		}
	}()
	return w.lane.sink.Deliver(a, a.d)
}

// conclude hands an attempt's verdict to the breaker, the log and the settle loop.
func (w *worker) conclude(a *attempt, v verdict, now time.Time) {
	l := w.lane
	w.current.Store(nil)
	w.report(a.d.Topic, v, now)
	o := Outcome{Kind: v.kind, Delay: v.delay, Class: v.class, Text: v.text}
	if v.kind == Retried || v.kind == Died {
		o.Attempts = a.d.Attempt
	}
	l.r.logAttempt(l, a.d, o)
	l.finish(w.claim, w.at, o)
}

// report tells the breaker how an admitted message ended, and the lane if that lets it go on.
func (w *worker) report(topic string, v verdict, now time.Time) {
	change := w.lane.breaker.report(topic, w.adm, v.says, now)
	if change != (stateChange{}) {
		w.lane.breakerChanged(change, v.text)
	}
	if w.adm == admittedAsProbe {
		w.lane.poke()
	}
}

// finish ends a claimed message's stay in the lane: its slot is free. Unless the claim is lost its outcome
// goes to the settle loop, and counts as unsettled until that is done.
func (l *lane) finish(c *heldClaim, i int, o Outcome) {
	d := c.ds[i]
	l.release(len(d.Payload), o.Kind != 0)
	idle := l.r.inFlight.Add(-1) == 0
	if o.Kind == 0 {
		return
	}
	o.Claim, o.Seq = c.ref, d.Seq
	l.r.settler.add(o, owner{l, c.session, c.grip, d.Key != ""}, idle)
}
