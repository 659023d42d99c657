package storetest

import (
	"strings"
	"sync"
	"time"

	"github.com/outboxrelay/outbox"
)

// operatorHeadCases are about operators and the heads that suspicion and parking make.
func operatorHeadCases() []Case {
	return []Case{
		{"a redriven message that died of a crash is a suspect still", AttemptsCount, redrivenSuspect},
		{"a redriven message that died of something else is no suspect", AttemptsCount, redrivenNoSuspect},
		{"a retry keeps a crashed message a suspect", AttemptsCount, retriedSuspect},
		{"a discard of one suspect leaves the others of its claim suspects", AttemptsCount, discardedSuspect},
		{"a discard that waits for a suspect removes it when its relay dies", NothingLost, discardedDying},
		{"a paused suspect holds its key, and no other suspect", OrderPerKey, pausedSuspect},
		{"redriving one of two parked messages leaves the key held by the other", OrderPerKey, redrivenBesideParked},
		{"two parked messages of a key are redriven in order", OrderPerKey, redrivenBothParked},
		{"Keys and Why tell of parked keys", Prompt, parkedKeysTell},
		{"Keys and Why tell of suspects", Prompt, suspectsTell},
		{"what is delivered without order holds no key in Keys and Why", Prompt, unorderedTell},
	}
}

// crashes lets one more relay die with a suspect, and returns the delivery that is to be settled for it and its relay.
func (e *env) crashes(label string) (*relay, *outbox.Delivery) {
	e.Helper()
	e.relay().takesSuspect(label, outbox.SuspectLapses)
	e.lapse()
	r := e.relay()
	return r, r.takesSuspect(label, outbox.SuspectLapses+1)
}

func redrivenSuspect(e *env) {
	o := e.operator()
	e.lapsedTwice(msg("a", "k", "ready"))
	for generation := 1; generation <= 2; generation++ { // it dies from being ready, then from waiting
		r, d := e.crashes("ready")
		e.equal("attempt", d.Attempt, 1)
		r.settled(crashed(outbox.Died, d, 0))
		e.equal("class", e.dead()[0].Class, outbox.ClassCrash)
		o.redrive(all(outbox.Change{}), 1)
		e.lapse()
		e.publish(msg("a", "k", "behind"))
		other := e.relay()
		d = other.takesSuspect("ready", outbox.SuspectLapses)
		e.equal("attempt", d.Attempt, 1)
		e.equal("generation", d.Generation, generation)
		other.takesNothing()
		other.settled(outcome(outbox.GivenBack, d))
	}
	e.equal("delivered", e.relay().drain(3), []string{"ready", "behind", "behind"})
}

func redrivenNoSuspect(e *env) {
	o := e.operator()
	e.lapsedTwice(msg("a", "k", "1"))
	r := e.relay()
	r.settled(outcome(outbox.Died, r.takesSuspect("1", outbox.SuspectLapses)))
	o.redrive(all(outbox.Change{}), 1)
	e.equal("lapses", r.claimUntil(1)[0].Lapses, 0)
}

func retriedSuspect(e *env) {
	o := e.operator()
	e.lapsedTwice(msg("a", "k", "1"))
	r, d := e.crashes("1")
	r.settled(crashed(outbox.Retried, d, time.Hour))
	r.takesNothing()
	o.retry(byKey("k"), 1)
	e.equal("attempt", r.takesSuspect("1", outbox.SuspectLapses).Attempt, 2)
}

func discardedSuspect(e *env) {
	o := e.operator()
	ids := e.publish(numbered(4, "s")...)
	for range outbox.SuspectLapses {
		e.relay().take(4)
		e.lapse()
	}
	// Once in what a dead relay holds, and once in what is left of it.
	for i, n := range []int{2, 0} {
		o.discard(outbox.Change{Filter: outbox.Filter{IDs: []outbox.ID{ids[n].ID}}}, 1, 0)
		r := e.relay()
		d := r.takesSuspect([]string{"s 0", "s 1"}[i], outbox.SuspectLapses)
		r.settled(outcome(outbox.GivenBack, d))
		r.stop()
	}
	r := e.relay()
	for _, label := range []string{"s 1", "s 3"} {
		r.deliver(r.takesSuspect(label, outbox.SuspectLapses))
	}
	e.equal("what is left", e.counts(), Counts{})
}

func discardedDying(e *env) {
	o := e.operator()
	e.lapsedTwice(msg("a", "k", "1"))
	e.relay().takesSuspect("1", outbox.SuspectLapses)
	waiting, ended := make(chan struct{}), make(chan struct{})
	var once sync.Once
	var report outbox.ChangeReport
	var err error
	go func() {
		defer close(ended)
		report, err = o.Discard(e.ctx, outbox.Change{Filter: outbox.Filter{Key: "k"}, Reason: "test", Wait: 6 * e.patience,
			Progress: func(p outbox.ChangeReport) {
				if p.Waiting {
					once.Do(func() { close(waiting) })
				}
			}})
	}()
	select {
	case <-waiting:
	case <-ended:
		e.Fatalf("did not wait: %+v, %v", report, err)
	}
	e.publish(msg("a", "k", "2"))
	e.lapse()
	<-ended
	e.must(err)
	e.equal("discarded", report.Changed, int64(1))
	e.equal("delivered", e.relay().drain(1), []string{"2"})
}

func pausedSuspect(e *env) {
	o := e.operator()
	e.lapsedTwice(msg("a", "k", "1"), msg("b", "", "2"))
	e.publish(msg("b", "k", "3"))
	o.pause(outbox.Pause{Topic: "a"})
	r := e.relay()
	d := r.takesSuspect("2", outbox.SuspectLapses)
	r.takesNothing()
	r.deliver(d)
	r.takesNothing()
	h := o.onlyHold()
	e.equal("what holds the key", h.State, outbox.HoldPaused)
	e.equal("its lapses", h.Lapses, outbox.SuspectLapses)
	e.leads(o.why(outbox.WhyQuery{Key: "k"}), "outbox resume --topic a")
	o.resume(outbox.Pause{Topic: "a"})
	e.equal("delivered", r.drain(2), []string{"1", "3"})
}

// parkedTwice parks a younger message of the key k, then an older one that was committed later; a follower is behind them.
func (e *env) parkedTwice(r *relay) (older, younger outbox.Change) {
	e.Helper()
	receipts, appear := e.late(msg("a", "k", "1"))
	one := receipts[0].ID
	two := e.publish(msg("a", "k", "2"))[0].ID
	r.settled(parked(r.takes("2")[0]))
	appear(r)
	r.settled(parked(r.takes("1")[0]))
	e.publish(msg("a", "k", "3"))
	r.takesNothing()
	named := func(id outbox.ID) outbox.Change { return outbox.Change{Filter: outbox.Filter{IDs: []outbox.ID{id}}} }
	return named(one), named(two)
}

func redrivenBesideParked(e *env) {
	o, r := e.operator(), e.relay()
	older, younger := e.parkedTwice(r)
	o.redrive(older, 1)
	r.deliver(r.takes("1")...)
	r.takesNothing()
	o.redrive(younger, 1)
	e.equal("delivered", r.drain(2), []string{"2", "3"})
}

func redrivenBothParked(e *env) {
	o, r := e.operator(), e.relay()
	older, younger := e.parkedTwice(r)
	o.redrive(younger, 1)
	r.takesNothing()
	o.redrive(older, 1)
	e.equal("delivered", r.drain(3), []string{"1", "2", "3"})
}

// holds are what Keys lists.
func (o operator) holds() []outbox.KeyHold {
	o.e.Helper()
	keys, err := o.Keys(o.e.ctx, 0)
	o.e.must(err)
	return keys.Holds
}

// onlyHold is the one that Keys lists.
func (o operator) onlyHold() outbox.KeyHold {
	o.e.Helper()
	holds := o.holds()
	if len(holds) != 1 {
		o.e.Fatalf("keys %+v, want one", holds)
	}
	return holds[0]
}

func (o operator) why(q outbox.WhyQuery) outbox.Why {
	o.e.Helper()
	w, err := o.Why(o.e.ctx, q)
	o.e.must(err)
	if w.Message == nil {
		o.e.Fatal("Why finds no message")
	}
	return w
}

func parkedKeysTell(e *env) {
	o, r := e.operator(), e.relay()
	older, younger := e.parkedTwice(r)
	e.die(r, msg("a", "dead", "not parked"), "error")
	for i, head := range []outbox.ID{older.IDs[0], younger.IDs[0]} {
		h := o.onlyHold()
		if h.Key != "k" || h.ID != head || h.State != outbox.HoldParked || h.Class != "error" || h.Text != "it failed" || h.Attempts != 1 || h.Behind.Messages != 1 {
			e.Fatalf("hold %d: %+v", i, h)
		}
		e.equal("released by", h.Release(), "outbox redrive --id "+head.String())
		w := o.why(outbox.WhyQuery{Key: "k"})
		e.equal("the first of the key", w.Message.ID, head)
		e.equal("does it hold its key", w.Message.Holds, true)
		e.leads(w, h.Release())
		o.discard(outbox.Change{Filter: outbox.Filter{IDs: []outbox.ID{head}}}, 1, 0)
	}
	e.equal("keys held", len(o.holds()), 0)
}

func suspectsTell(e *env) {
	o := e.operator()
	e.lapsedTwice(msg("a", "k", "1"))
	follower := e.publish(msg("a", "k", "2"))[0].ID
	tells := func(state outbox.HoldState, lapses int) {
		e.Helper()
		h := o.onlyHold()
		e.equal("state", h.State, state)
		e.equal("lapses in Keys", h.Lapses, lapses)
		w := o.why(outbox.WhyQuery{ID: follower})
		if w.Head == nil || w.Head.Lapses != lapses {
			e.Fatalf("Why: head %+v, want %d lapses", w.Head, lapses)
		}
		e.equal("lapses of the follower", w.Message.Lapses, 0)
		told := false
		for _, r := range w.Reasons() {
			told = told || strings.Contains(r.Text, "relays have died with it")
		}
		e.equal("do the reasons tell that relays have died with it", told, true)
	}
	tells(outbox.HoldLost, outbox.SuspectLapses)
	r, d := e.crashes("1")
	r.settled(crashed(outbox.Retried, d, time.Hour))
	tells(outbox.HoldRetrying, outbox.SuspectLapses)
	o.retry(byKey("k"), 1)
	tells(outbox.HoldDue, outbox.SuspectLapses)
	r.takesSuspect("1", outbox.SuspectLapses)
	tells(outbox.HoldInFlight, outbox.SuspectLapses)
	e.lapse()
	tells(outbox.HoldLost, outbox.SuspectLapses+1)
}

func unorderedTell(e *env) {
	o := e.operator()
	unordered := lane(defaultLane, ">")
	unordered.Unordered = topics("free.>")
	r := e.relay(unordered)
	ids := e.publish(msg("free.waits", "k", "1"), msg("free.dies", "k", "2"), msg("a", "k", "3"), msg("free.waits", "l", "4"))
	for _, d := range r.take(4) {
		if d.Topic == "free.dies" {
			r.settled(parked(d))
		} else {
			r.settled(retried(d, time.Hour))
		}
	}
	h := o.onlyHold()
	e.equal("what holds the key", h.ID, ids[2].ID)
	for i, holds := range []bool{false, false, true, false} {
		w := o.why(outbox.WhyQuery{ID: ids[i].ID})
		if w.Message.Holds != holds || w.Head != nil {
			e.Errorf("Why of %d: holds %v, behind %+v", i+1, w.Message.Holds, w.Head)
		}
	}
	e.leads(o.why(outbox.WhyQuery{ID: ids[1].ID}), "outbox redrive --id "+ids[1].ID.String())
	e.equal("the first of the key", o.why(outbox.WhyQuery{Key: "k"}).Message.ID, ids[2].ID)
}
