package outbox

import (
	"errors"
	"time"
)

// wave is the part of a run that is in one batch: its head, or for a sink that pipelines as many messages as the
// batch takes. What is behind the wave goes on when each of its messages has a result, and none holds the key.
type wave struct {
	claim  *heldClaim
	next   int         // the run's first message behind the wave
	alone  int         // so many of those go one by one
	left   int         // messages without a result
	held   bool        // one of them holds the key …
	behind OutcomeKind // … and this becomes of those behind
}

// begin adds the first message of a run that may be sent, and ends those that may not.
func (b *batch) begin(r run, now time.Time) {
	l := b.lane
	for i := r.first; i != noMore; i = r.claim.after(i) {
		adm, kind := l.admit(r.claim, i, now)
		if adm == refused {
			l.endRest(r.claim, i, kind)
			return
		}
		o := l.spare(r.claim, i, adm, now)
		switch {
		case o.Kind == 0:
			b.waves = append(b.waves, wave{claim: r.claim, next: i, alone: r.alone})
			b.add(len(b.waves)-1, adm)
			return
		case !o.frees():
			l.endRest(r.claim, r.claim.after(i), behind(o))
			return
		}
	}
}

// add moves the next message of a wave's run into the batch.
func (b *batch) add(at int, adm admission) {
	w := &b.waves[at]
	b.items = append(b.items, batchItem{claim: w.claim, at: w.next, wave: at, adm: adm})
	b.ds = append(b.ds, w.claim.ds[w.next])
	w.next, w.alone = w.claim.after(w.next), max(w.alone-1, 0)
	w.left++
}

// extend lets the messages behind each head go with it, in order, up to the batch's size. One that may not be sent
// ends the wave, and is dealt with when its turn comes.
func (b *batch) extend(now time.Time) {
	for at := range b.waves {
		w := &b.waves[at]
		for len(b.items) < b.lane.batchSize && w.next != noMore && w.alone == 0 && w.claim.ds[w.next].deliverable(now) {
			adm, _ := b.lane.admit(w.claim, w.next, now)
			if adm == refused {
				break
			}
			b.add(at, adm)
		}
	}
}

// pass takes a message's outcome for its wave; after the last one the run goes on, or ends.
func (b *batch) pass(at int, o Outcome) {
	w := &b.waves[at]
	b.mu.Lock()
	if !o.frees() && !w.held {
		w.held, w.behind = true, behind(o)
	}
	w.left--
	last := w.left == 0
	b.mu.Unlock()
	switch {
	case !last || w.next == noMore:
	case w.held:
		b.lane.endRest(w.claim, w.next, w.behind)
	default:
		b.lane.requeue(run{claim: w.claim, first: w.next, alone: w.alone})
	}
}

// errBatchPanicked: the message will be tried alone at once.
var errBatchPanicked = errors.New("the sink panicked with several messages in hand")

// isolate sends the messages that were left without a result once more, one by one. Those of a wave in which another
// one holds the key wait behind that.
func (b *batch) isolate(rest []int) {
	for at := range b.waves {
		w := &b.waves[at]
		var first, last, n int
		for _, i := range rest {
			it := &b.items[i]
			if it.wave != at {
				continue
			}
			b.lane.report(b.ds[i], it.adm, verdict{}, time.Time{})
			b.lane.r.event(Event{Kind: EventResult, Destination: b.lane.name, Delivery: b.ds[i], Err: errBatchPanicked})
			b.lane.deliverEnd(it.ctx, b.ds[i], Outcome{Kind: GivenBack}, errBatchPanicked, 0, time.Now())
			switch {
			case w.held:
				b.lane.finish(it.claim, it.at, Outcome{Kind: w.behind})
			case n == 0:
				first = it.at
			default:
				w.claim.join(last, it.at)
			}
			last = it.at
			n++
		}
		switch {
		case n == 0:
		case w.held:
			b.lane.endRest(w.claim, w.next, w.behind)
		default:
			w.claim.join(last, w.next)
			b.lane.requeue(run{claim: w.claim, first: first, alone: n})
		}
	}
}

// join makes a message of a run follow another one directly: those between them have ended.
func (c *heldClaim) join(before, i int) {
	if c.after(before) != i {
		c.link(before, i)
	}
}
