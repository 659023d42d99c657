package outbox

import (
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"
)

// batch is one call of DeliverBatch under way. It holds at most one message of a key: the head of a run. As
// soon as that is settled for good, the run goes back to the lane's queue and its next message into another
// batch; when it is not, the rest of the run ends with it. So the order of a key is kept within and across
// batches, whatever part of them fails (TestBatchKeyOrder, TestBatchRandomFaults).
//
// Each message gets exactly one result: the first that is reported, or what DeliverBatch returned. Reports
// after that are ignored, those of others that are still being worked on are awaited, so nothing of a batch
// is under way when its worker goes on (TestBatchReports).
type batch struct {
	attempt
	lane  *lane
	items []batchItem
	ds    []*Delivery

	mu        sync.Mutex
	left      int            // without a result
	reports   sync.WaitGroup // being worked on
	strayTold bool
}

type batchItem struct {
	run
	adm  admission
	done bool
}

// deliverBatch delivers the heads of the runs that may be sent now.
func (w *worker) deliverBatch(runs []run) {
	l, now := w.lane, time.Now()
	b := &batch{lane: l, items: make([]batchItem, 0, len(runs))}
	var limit time.Duration // the longest of the messages'
	for _, r := range runs {
		item, ok := l.admitRun(r, now)
		if !ok {
			continue
		}
		d := item.claim.ds[item.first]
		b.items, b.ds = append(b.items, item), append(b.ds, d)
		limit = max(limit, l.r.policies.of(d.Topic).timeout)
	}
	if len(b.items) == 0 {
		return
	}
	b.left = len(b.items)
	b.attempt.batch, b.session, b.began, b.deadline = b, b.items[0].claim.session, now, now.Add(limit)
	for _, d := range b.ds {
		l.r.event(Event{Kind: EventDelivering, Destination: l.name, Delivery: d})
	}
	w.current.Store(&b.attempt)
	err := b.call()
	w.current.Store(nil)
	b.end(err)
}

// admitRun finds the first message of a run that may be sent, and ends those that may not.
func (l *lane) admitRun(r run, now time.Time) (batchItem, bool) {
	for i := r.first; i != noMore; i = r.claim.after(i) {
		adm, kind := l.admit(r.claim, i, now)
		switch {
		case adm == refused:
			l.endRest(r.claim, i, kind)
			return batchItem{}, false
		case r.claim.ds[i].deliverable(now):
			r.first = i
			return batchItem{run: r, adm: adm}, true
		}
		l.spare(r.claim, i, adm)
	}
	return batchItem{}, false
}

// call runs the sink; a panic becomes its error.
func (b *batch) call() (err error) {
	defer recovered(&err)
	return b.lane.batches.DeliverBatch(&b.attempt, slices.Clone(b.ds), b.report)
}

// report is what the sink calls.
func (b *batch) report(i int, err error) {
	now := time.Now()
	if !b.begin(i) {
		return
	}
	defer b.reports.Done()
	b.result(i, err, b.causeNow(now), now)
}

// begin takes a message's first result.
func (b *batch) begin(i int) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if i < 0 || i >= len(b.items) {
		if !b.strayTold {
			b.strayTold = true
			b.lane.r.log.Error("sink reported a message that is not in its batch", "destination", b.lane.name, "index", i, "messages", len(b.items))
		}
		return false
	}
	if b.items[i].done {
		return false
	}
	b.items[i].done = true
	b.left--
	b.reports.Add(1)
	return true
}

// result concludes a message and lets its run go on.
func (b *batch) result(i int, err, cause error, now time.Time) {
	l, it := b.lane, &b.items[i]
	l.r.event(Event{Kind: EventResult, Destination: l.name, Delivery: b.ds[i], Took: now.Sub(b.began), Err: err})
	kind := l.conclude(it.claim, it.first, it.adm, err, cause, now)
	next := it.claim.after(it.first)
	switch {
	case next == noMore:
	case kind.isFinal():
		l.requeue(run{claim: it.claim, first: next})
	default:
		l.endRest(it.claim, next, behind(kind))
	}
}

// end gives what the call returned to the messages that have no result, and waits for the reports of others.
// A panic with several messages is nobody's yet: each of them is tried alone (TestBatchPanicIsolated).
func (b *batch) end(err error) {
	now := time.Now()
	cause := b.attempt.end(now)
	rest := b.takeRest()
	if err == nil {
		err = ErrUnreported
	}
	var panicked *panicError
	isolate := len(rest) > 1 && cause == nil && errors.As(err, &panicked)
	for _, i := range rest {
		if isolate {
			b.retryAlone(i)
		} else {
			b.result(i, err, cause, now)
		}
	}
	b.reports.Wait()
}

// takeRest returns the messages without a result; from now on reports are ignored.
func (b *batch) takeRest() (rest []int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i := range b.items {
		if !b.items[i].done {
			b.items[i].done = true
			rest = append(rest, i)
		}
	}
	b.left = 0
	return rest
}

func (b *batch) retryAlone(i int) {
	it := &b.items[i]
	b.lane.report(b.ds[i], it.adm, verdict{}, time.Time{})
	b.lane.r.event(Event{Kind: EventResult, Destination: b.lane.name, Delivery: b.ds[i], Err: errBatchPanicked})
	b.lane.requeue(run{claim: it.claim, first: it.first, alone: true})
}

// errBatchPanicked: the message will be tried alone at once.
var errBatchPanicked = errors.New("the sink panicked with several messages in hand")

// requeue puts a run back.
func (l *lane) requeue(r run) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.head == len(l.queue) {
		l.queue, l.head = l.queue[:0], 0
	}
	l.queue = append(l.queue, r)
	l.spawn()
}

func (b *batch) unreported() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.left
}

// subject names the batch by the first message without a result.
func (b *batch) subject() []any {
	b.mu.Lock()
	defer b.mu.Unlock()
	i := max(slices.IndexFunc(b.items, func(it batchItem) bool { return !it.done }), 0)
	return append(messageAttrs(b.lane, b.ds[i]), slog.Int("messages", b.left))
}
