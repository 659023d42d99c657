package outbox

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"
)

// batch is one call of DeliverBatch under way. It holds at most one message of a key: the head of a run. As
// soon as that is settled for good, the run goes back to the lane's queue and its next message into another
// batch; when it holds its key, the rest of the run ends with it. So the order of a key is kept within and across
// batches, whatever part of them fails (TestBatchKeyOrder, TestBatchRandomFaults). For a sink that pipelines it
// holds a wave of each run, several messages in order, and the run goes on when all of them have their results.
//
// Each message gets exactly one result: the first that is reported, or what DeliverBatch returned. Reports
// after that are ignored, those of others that are still being worked on are awaited, so nothing of a batch
// is under way when its worker goes on (TestBatchReports).
type batch struct {
	attempt
	lane  *lane
	items []batchItem
	waves []wave // one for each run
	ds    []*Delivery

	mu        sync.Mutex
	left      int            // without a result
	reports   sync.WaitGroup // being worked on
	strayTold bool
}

type batchItem struct {
	claim *heldClaim
	at    int
	wave  int
	adm   admission
	ctx   context.Context // the batch's, or what the hooks made of it
	done  bool
}

// deliverBatch delivers the heads of the runs that may be sent now, and what may go with them.
func (w *worker) deliverBatch(runs []run) {
	l, now := w.lane, time.Now()
	b := &batch{lane: l, items: make([]batchItem, 0, len(runs)), waves: make([]wave, 0, len(runs))}
	for _, r := range runs {
		b.begin(r, now)
	}
	if len(b.items) == 0 {
		return
	}
	if l.pipelines {
		b.extend(now)
	}
	var limit time.Duration // the longest of the messages'
	for _, d := range b.ds {
		limit = max(limit, l.r.policies.of(d.Topic).timeout)
	}
	b.left = len(b.items)
	b.attempt.batch, b.session, b.began, b.deadline = b, b.items[0].claim.session, now, now.Add(limit)
	b.ctx = l.batchStart(&b.attempt, b.ds)
	for i, d := range b.ds {
		b.items[i].ctx = l.deliverStart(b.ctx, d)
	}
	w.current.Store(&b.attempt)
	err := b.call()
	w.current.Store(nil)
	b.end(err)
}

// call runs the sink; a panic becomes its error.
func (b *batch) call() (err error) {
	defer recovered(&err)
	return b.lane.batches.DeliverBatch(b.ctx, slices.Clone(b.ds), b.report)
}

// report is what the sink calls.
func (b *batch) report(i int, err error) {
	now := time.Now()
	if !b.take(i) {
		return
	}
	defer b.reports.Done()
	b.result(i, err, b.causeNow(now), now)
}

// take takes a message's first result.
func (b *batch) take(i int) bool {
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
	o := l.conclude(it.claim, it.at, it.adm, err, cause, now)
	l.deliverEnd(it.ctx, b.ds[i], o, err, now.Sub(b.began), now)
	b.pass(it.wave, o)
}

// end gives what the call returned to the messages that have no result, after the reports of others. A panic with
// several messages is nobody's yet: each of them is tried alone (TestBatchPanicIsolated).
func (b *batch) end(err error) {
	now := time.Now()
	cause := b.attempt.end(now)
	rest := b.takeRest()
	b.reports.Wait()
	defer b.lane.batchEnd(b.ctx, err)
	if err == nil {
		err = ErrUnreported
	}
	var panicked *panicError
	if len(rest) > 1 && cause == nil && errors.As(err, &panicked) {
		b.isolate(rest)
		return
	}
	for _, i := range rest {
		b.result(i, err, cause, now)
	}
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
