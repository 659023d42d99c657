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
	suspect bool    // one message, which is delivered alone
	crashed bool    // one message, which is not delivered
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
	alone int // so many messages go one by one, in batches without others
}

const noMore = -1

func (c *heldClaim) after(i int) int {
	if c.next == nil {
		return noMore
	}
	return int(c.next[i])
}

// alone: a suspect goes without others.
func (c *heldClaim) alone() int {
	if c.suspect {
		return len(c.ds)
	}
	return 0
}

// appendRuns splits the claim into runs.
func (c *heldClaim) appendRuns(runs []run, p *policies) []run {
	var last map[string]int // of each key: the run's last message so far
	for i, d := range c.ds {
		if !p.of(d.Topic).lines(d) {
			runs = append(runs, run{claim: c, first: i, alone: c.alone()})
			continue
		}
		if last == nil {
			last = make(map[string]int, len(c.ds)-i)
		}
		if before, ok := last[d.Key]; ok {
			c.link(before, i)
		} else {
			runs = append(runs, run{claim: c, first: i, alone: c.alone()})
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

// dispatch hands claimed messages to the lane's workers, and those that have crashed to the settle loop.
func (l *lane) dispatch(claims []*heldClaim) {
	l.enqueue(claims)
	for _, c := range claims {
		if c.crashed {
			l.settleCrashed(c)
		}
	}
}

func (l *lane) enqueue(claims []*heldClaim) {
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
		if !c.crashed {
			l.queue = c.appendRuns(l.queue, &l.r.policies)
		}
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

// worker delivers runs, one message or one batch at a time, until the queue is empty.
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
	most := 1
	if w.lane.batches != nil {
		most = w.lane.batchSize
	}
	var runs []run
	for {
		if runs = w.take(runs[:0], most); len(runs) == 0 {
			return
		}
		if w.lane.batches != nil {
			w.deliverBatch(runs)
		} else {
			w.deliverRun(runs[0])
		}
	}
}

// take returns the next runs, none when the queue is empty: then the worker is off the lane.
func (w *worker) take(runs []run, most int) []run {
	l := w.lane
	l.mu.Lock()
	defer l.mu.Unlock()
	if w.fresh {
		w.fresh, l.starting = false, false
	}
	for len(runs) < most && l.head < len(l.queue) {
		r := l.queue[l.head]
		if r.alone > 0 && len(runs) > 0 {
			break
		}
		l.queue[l.head] = run{}
		l.head++
		if runs = append(runs, r); r.alone > 0 {
			break
		}
	}
	if len(runs) == 0 {
		l.queue, l.head = l.queue[:0], 0
		l.forget(w)
		return nil
	}
	l.spawn()
	return runs
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

// leave ends a worker. A sink that called runtime.Goexit takes its worker along: its attempt has failed.
func (w *worker) leave() {
	if a := w.current.Load(); a != nil {
		w.current.Store(nil)
		err := &panicError{errGoexit, debug.Stack()}
		if a.batch != nil {
			a.batch.end(err)
		} else {
			now := time.Now()
			a.end(now)
			o := w.lane.conclude(w.claim, w.at, w.adm, err, nil, now)
			w.lane.deliverEnd(a.ctx, a.d, o, err, now.Sub(a.began), now)
			w.lane.endRest(w.claim, w.claim.after(w.at), Unlisted)
		}
	}
	l := w.lane
	l.mu.Lock()
	defer l.mu.Unlock()
	l.forget(w)
	l.spawn()
}

// deliverRun delivers the messages of a run in order. Where one cannot be delivered, so cannot those behind it.
func (w *worker) deliverRun(r run) {
	l := w.lane
	for i := r.first; i != noMore; i = r.claim.after(i) {
		now := time.Now()
		adm, kind := l.admit(r.claim, i, now)
		switch {
		case adm == refused:
			l.endRest(r.claim, i, kind)
			return
		}
		o := l.spare(r.claim, i, adm, now)
		if o.Kind == 0 {
			o = w.deliver(r.claim, i, adm, now)
		}
		if !o.frees() {
			l.endRest(r.claim, r.claim.after(i), behind(o))
			return
		}
	}
}

// frees: the next message of the key may be delivered, before the outcome is stored. If it never is, the message comes
// again and ends as before. One that died might not: it may be accepted the next time, so those behind it wait until its
// death is stored (TestDeathIsStoredFirst), and for longer if it holds its key.
func (o *Outcome) frees() bool { return o.Kind == Delivered || o.Kind == Dropped || o.Kind == Expired }

// behind is what becomes of the messages behind one that holds its key.
func behind(head Outcome) OutcomeKind {
	if head.Kind == Retried || head.Kind == Died {
		return Unlisted
	}
	return head.Kind
}

// admit tells whether a message may be sent now; if it is refused, kind is what becomes of it: nothing when
// the lease is over.
func (l *lane) admit(c *heldClaim, i int, now time.Time) (adm admission, kind OutcomeKind) {
	switch {
	case !c.session.valid(now):
		c.session.lose()
		return refused, 0
	case c.session.stopping.Load():
		return refused, GivenBack
	}
	return l.breaker.admit(c.ds[i].Topic, now), GivenBack
}

// endRest ends the messages of a run from i on undelivered; kind zero settles nothing.
func (l *lane) endRest(c *heldClaim, i int, kind OutcomeKind) {
	for ; i != noMore; i = c.after(i) {
		l.finish(c, i, Outcome{Kind: kind})
	}
}

// spare ends a message that is not to be delivered, without an attempt: its life is over, or it cannot be read. Of
// others it returns the zero Outcome.
func (l *lane) spare(c *heldClaim, i int, adm admission, now time.Time) Outcome {
	d := c.ds[i]
	if d.deliverable(now) {
		return Outcome{}
	}
	l.report(d, adm, verdict{}, time.Time{})
	p := l.r.policies.of(d.Topic)
	var o Outcome
	switch {
	case !d.expired(now):
		o = p.end(d, 0)
		o.Class, o.Text = ClassDecode, d.Unreadable.Error()
	case p.onExpired == ExpiredDead: // whatever the order, its key goes on
		o = Outcome{Kind: Died, Class: ClassExpired, Text: "expired before it was delivered"}
	default:
		o = Outcome{Kind: Expired}
	}
	if o.Kind != Expired {
		o.Attempts = d.Attempt - 1
		l.r.logUnsent(l, d, o)
	}
	l.finish(c, i, o)
	return o
}

// deliver makes one attempt.
func (w *worker) deliver(c *heldClaim, i int, adm admission, now time.Time) Outcome {
	l, d := w.lane, c.ds[i]
	p := l.r.policies.of(d.Topic)
	a := &attempt{session: c.session, d: d, began: now, deadline: now.Add(p.timeout)}
	w.claim, w.at, w.adm = c, i, adm
	a.ctx = l.deliverStart(a, d)
	w.current.Store(a)
	failpoint.Hit("deliver.before")
	err := w.call(a)
	failpoint.Hit("deliver.after")
	ended := time.Now()
	cause := a.end(ended)
	w.current.Store(nil)
	l.r.event(Event{Kind: EventResult, Destination: l.name, Delivery: d, Took: ended.Sub(now), Err: err})
	o := l.conclude(c, i, adm, err, cause, ended)
	l.deliverEnd(a.ctx, d, o, err, ended.Sub(now), ended)
	return o
}

// call runs the sink; a panic becomes its error.
func (w *worker) call(a *attempt) (err error) {
	defer recovered(&err)
	return w.lane.sink.Deliver(a.ctx, a.d)
}

// recovered makes a panic the error of a call that defers it.
func recovered(err *error) {
	if v := recover(); v != nil {
		*err = &panicError{v, debug.Stack()}
	}
}

// conclude hands the result of an attempt to the breaker, the log and the settle loop.
func (l *lane) conclude(c *heldClaim, i int, adm admission, err, cause error, now time.Time) Outcome {
	d := c.ds[i]
	p := l.r.policies.of(d.Topic)
	if look := d.looker(); look != nil {
		err, cause = l.lookAfter(c.session, d, look, err, cause)
		now = time.Now()
	}
	v := judge(err, cause, p, d)
	v = v.charge(l.report(d, adm, v, now), err, p, d)
	o := v.outcome(d)
	if o.Kind == Retried && !d.Deadline.IsZero() {
		o.Delay = min(o.Delay, max(d.Deadline.Sub(now), 0)) // when it ends, its key goes on
	}
	if o.Kind == Delivered {
		l.r.counters.latency.Add(l.r.ageOf(d, now).Microseconds())
	}
	l.r.logAttempt(l, d, o)
	l.finish(c, i, o)
	return o
}

// report tells the breaker how an admitted message ended, and the lane if that lets it go on.
func (l *lane) report(d *Delivery, adm admission, v verdict, now time.Time) stateChange {
	change := l.breaker.report(d, adm, v.says, now)
	if change.closed || change.opened {
		l.breakerChanged(change, v.text, v.misconfigured)
	}
	if adm == admittedAsProbe {
		l.poke()
	}
	return change
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
	l.r.settler.add(o, owner{l, c.session, c.grip, d.Topic, d.Key != "", c.suspect}, idle)
}
