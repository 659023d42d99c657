package storetest

import (
	"cmp"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/outboxrelay/outbox"
)

// OperatorHarness is a Harness of a store that can be repaired. Without it the cases about operators are skipped.
type OperatorHarness interface {
	Harness
	// Operator returns an Operator on the outbox, as another process would have.
	Operator(t testing.TB) outbox.Operator
}

func operatorCases() []Case {
	return []Case{
		{"a redriven message is delivered again, its attempts from the start, a generation on", NothingLost, redriven},
		{"a redriven message goes before the followers that nobody has claimed yet", OrderPerKey, redrivenGoesFirst},
		{"a redriven message waits for the follower in flight", OrderPerKey, redrivenWaits},
		{"redriven messages of a key keep their order", OrderPerKey, redrivenInOrder},
		{"a filter changes what it matches, and nothing else", NothingLost, filters},
		{"a change stops at its limit", NothingLost, changeLimit},
		{"a change without a filter, or with a wrong one, is refused and changes nothing", NothingLost, wrongChanges},
		{"a dry run counts and changes nothing", NothingLost, dryRun},
		{"an operation that has ended can be asked for again", NothingLost, continued},
		{"a retry makes a waiting message due and keeps its attempts", AttemptsCount, retriedByOperator},
		{"a retry leaves scheduled messages alone unless they are named", AttemptsCount, retryScheduled},
		{"a discard removes what is ready, waiting and dead", NothingLost, discards},
		{"a discard leaves what a live relay holds", NothingLost, discardHeld},
		{"a discarded message cannot be settled by its lapsed relay", NothingLost, discardLapsed},
		{"a discarded head frees its key", Prompt, discardFreesKey},
		{"a discard that waits removes a message as soon as its delivery has failed", NothingLost, discardWaits},
		{"a discard that waits in vain leaves the message", NothingLost, discardGivesUp},
		{"a paused topic is not claimed and holds its keys until it is resumed", OrderPerKey, pausedTopic},
		{"a paused destination is not claimed until it is resumed", NothingLost, pausedDestination},
		{"what is in delivery when a pause begins goes on", NothingLost, pauseLetsFinish},
		{"Wait returns early after an operator's change", Prompt, operatorWakes},
		{"Keys tells what holds a key", Prompt, keysTell},
		{"Why leads from a message to what has to happen first", Prompt, whyLeads},
		{"Why tells of a destination that no relay finds available", Prompt, whyOutage},
		{"Why tells of a destination that no relay finds available also while a message waits for its next attempt", Prompt, whyOutageOfRetry},
		{"Why tells of a pause, of nobody to deliver, and of what is not there", Prompt, whyElse},
	}
}

// operator is an outbox.Operator whose errors end the case.
type operator struct {
	e *env
	outbox.Operator
}

func (e *env) operator() operator {
	e.Helper()
	h, ok := e.h.(OperatorHarness)
	if !ok {
		e.Skip("the store has no operator")
	}
	return operator{e, h.Operator(e.TB)}
}

func all(c outbox.Change) outbox.Change {
	c.All = true
	return c
}

func byKey(key string) outbox.Change {
	return outbox.Change{Filter: outbox.Filter{Key: key}, Reason: "test"}
}

func (o operator) redrive(c outbox.Change, changed int64) outbox.ChangeReport {
	o.e.Helper()
	r, err := o.Redrive(o.e.ctx, c)
	o.e.must(err)
	o.e.equal("redriven", r.Changed, changed)
	return r
}

func (o operator) retry(c outbox.Change, changed int64) outbox.ChangeReport {
	o.e.Helper()
	r, err := o.Retry(o.e.ctx, c)
	o.e.must(err)
	o.e.equal("retried", r.Changed, changed)
	return r
}

func (o operator) discard(c outbox.Change, changed, held int64) outbox.ChangeReport {
	o.e.Helper()
	c.Reason = "test"
	r, err := o.Discard(o.e.ctx, c)
	o.e.must(err)
	o.e.equal("discarded", r.Changed, changed)
	o.e.equal("held", r.Held, held)
	return r
}

func (o operator) pause(p outbox.Pause) {
	o.e.Helper()
	_, err := o.Pause(o.e.ctx, p)
	o.e.must(err)
}

func (o operator) resume(p outbox.Pause) outbox.ChangeReport {
	o.e.Helper()
	r, err := o.Resume(o.e.ctx, p)
	o.e.must(err)
	return r
}

// die publishes a message and lets it die; the class of its error is class, its text "it failed".
func (e *env) die(r *relay, m outbox.Message, class string) outbox.ID {
	e.Helper()
	id := e.publish(m)[0].ID
	o := outcome(outbox.Died, r.takes(string(m.Payload))[0])
	o.Class = class
	r.settled(o)
	return id
}

func redriven(e *env) {
	o, r := e.operator(), e.relay()
	e.die(r, msg("a", "", "one"), "error")
	e.equal("states", e.counts(), Counts{Dead: 1})
	for generation := 1; generation <= 2; generation++ {
		report := o.redrive(all(outbox.Change{}), 1)
		if report.Operation == 0 || report.Matched != 1 || report.More {
			e.Errorf("report %+v", report)
		}
		e.equal("states", e.counts(), Counts{Waiting: 1})
		d := r.takes("one")[0]
		e.equal("generation", d.Generation, generation)
		e.equal("attempt", d.Attempt, 1)
		r.settled(outcome(outbox.Died, d))
	}
	o.redrive(all(outbox.Change{}), 1)
	r.deliver(r.takes("one")...)
	e.equal("states", e.counts(), Counts{})
	o.redrive(all(outbox.Change{}), 0)
}

func redrivenGoesFirst(e *env) {
	o, r, other := e.operator(), e.relay(), e.relay()
	e.die(r, msg("head", "k", "1"), "error")
	e.publish(msg("a", "k", "2"), msg("a", "k", "3"))
	o.redrive(byKey("k"), 1)
	other.takesNothing(closed("head"))
	e.equal("delivered", other.drain(3), []string{"1", "2", "3"})
}

func redrivenWaits(e *env) {
	o, r, other := e.operator(), e.relay(), e.relay()
	e.die(r, msg("a", "k", "1"), "error")
	e.publish(msg("a", "k", "2"))
	ds := r.takes("2")
	e.publish(msg("a", "k", "3"))
	o.redrive(byKey("k"), 1)
	other.takesNothing()
	r.takesNothing()
	r.settled(retried(ds[0], 10*time.Second))
	r.settled(retried(other.takes("1")[0], 10*time.Second))
	r.takesNothing()
	e.advance(11*time.Second, r, other)
	e.equal("delivered", other.drain(3), []string{"1", "2", "3"})
}

func redrivenInOrder(e *env) {
	o, r := e.operator(), e.relay()
	for _, label := range []string{"1", "2", "3"} {
		e.die(r, msg("a", "k", label), "error")
	}
	e.publish(msg("a", "k", "4"))
	o.redrive(outbox.Change{Filter: outbox.Filter{Key: "k"}, Rate: 1000}, 3)
	e.equal("delivered", r.drain(4), []string{"1", "2", "3", "4"})
}

func filters(e *env) {
	o, r := e.operator(), e.relay()
	id := e.die(r, msg("orders.created", "k", "1"), "error")
	e.die(r, msg("orders.paid", "l", "2"), "timeout")
	e.advance(time.Hour, r)
	e.die(r, msg("audit", "", "3"), "error")
	matches := func(f outbox.Filter, want int64) {
		e.Helper()
		report, err := o.Redrive(e.ctx, outbox.Change{Filter: f, DryRun: true})
		e.must(err)
		if report.Matched != want {
			e.Errorf("%+v matches %d, want %d", f, report.Matched, want)
		}
	}
	matches(outbox.Filter{All: true}, 3)
	matches(outbox.Filter{IDs: []outbox.ID{id, outbox.NewID()}}, 1)
	matches(outbox.Filter{IDs: []outbox.ID{outbox.NewID()}}, 0)
	matches(outbox.Filter{Topic: "orders.>"}, 2)
	matches(outbox.Filter{Topic: "orders.paid"}, 1)
	matches(outbox.Filter{Topic: "*"}, 1)
	matches(outbox.Filter{Topic: ">"}, 3)
	matches(outbox.Filter{Key: "l"}, 1)
	matches(outbox.Filter{Class: "error"}, 2)
	matches(outbox.Filter{Text: "failed"}, 3)
	matches(outbox.Filter{Text: "%"}, 0)
	matches(outbox.Filter{OlderThan: 30 * time.Minute}, 2)
	matches(outbox.Filter{NewerThan: 30 * time.Minute}, 1)
	matches(outbox.Filter{Topic: "orders.>", Class: "error", Key: "k"}, 1)
	matches(outbox.Filter{Topic: "audit", Key: "k"}, 0)
	o.redrive(outbox.Change{Filter: outbox.Filter{Topic: "orders.>", Class: "timeout"}}, 1)
	r.deliver(r.takes("2")...)
	r.takesNothing()
	e.equal("states", e.counts(), Counts{Dead: 2})
}

func changeLimit(e *env) {
	o, r := e.operator(), e.relay()
	for _, label := range []string{"1", "2", "3"} {
		e.die(r, msg("a", "", label), "error")
	}
	report, err := o.Redrive(e.ctx, outbox.Change{Filter: outbox.Filter{All: true, Limit: 2}, DryRun: true})
	e.must(err)
	e.equal("matched by a dry run", report.Matched, int64(2))
	o.redrive(outbox.Change{Filter: outbox.Filter{All: true, Limit: 2}}, 2)
	e.equal("delivered", sorted(r.drain(2)), []string{"1", "2"})
}

func wrongChanges(e *env) {
	o, r := e.operator(), e.relay()
	e.die(r, msg("a", "k", "1"), "error")
	e.publish(msg("a", "k", "2"))
	before := e.counts()
	for _, c := range []outbox.Change{
		{}, {Filter: outbox.Filter{Limit: 1}}, {Filter: outbox.Filter{All: true, Key: "k"}}, {Filter: outbox.Filter{Topic: "a..b"}},
		{Filter: outbox.Filter{IDs: []outbox.ID{}}}, {Filter: outbox.Filter{OlderThan: -1}}, {Filter: outbox.Filter{NewerThan: -1}},
		{Filter: outbox.Filter{All: true, Limit: -1}}, {Filter: outbox.Filter{All: true}, Rate: -1}, {Filter: outbox.Filter{All: true}, Wait: -1},
		{Filter: outbox.Filter{Key: "\x00"}}, {Filter: outbox.Filter{Text: "\xff"}}, {Filter: outbox.Filter{Key: "k"}, Continue: 1}, {Continue: -1},
		{Filter: outbox.Filter{All: true}, Rate: 1 << 40}, {Filter: outbox.Filter{All: true}, Actor: "\xff"}, {Filter: outbox.Filter{All: true}, Reason: "\x00"}, {Continue: 4711, Actor: "\x00"},
		{Continue: 4711},
	} {
		for name, do := range map[string]func() error{
			"redrive": func() error { _, err := o.Redrive(e.ctx, c); return err },
			"retry":   func() error { _, err := o.Retry(e.ctx, c); return err },
			"discard": func() error { c.Reason = cmp.Or(c.Reason, "test"); _, err := o.Discard(e.ctx, c); return err },
		} {
			var refused *outbox.FieldError
			if err := do(); !errors.As(err, &refused) {
				e.Errorf("%s of %+v: error %v, want a FieldError", name, c, err)
			}
		}
	}
	if _, err := o.Discard(e.ctx, all(outbox.Change{})); err == nil {
		e.Error("a discard without a reason")
	}
	wrongPauses(e, o)
	e.equal("states", e.counts(), before)
}

func wrongPauses(e *env, o operator) {
	for _, p := range []outbox.Pause{{}, {Topic: "a", Destination: "b"}, {Topic: "a..b"}, {Destination: "Events"}, {Destination: strings.Repeat("a", 65)},
		{Topic: "a", Reason: "\xff"}, {Destination: "b", Actor: "\x00"}} {
		var refused *outbox.FieldError
		if _, err := o.Pause(e.ctx, p); !errors.As(err, &refused) {
			e.Errorf("pause %+v: error %v, want a FieldError", p, err)
		}
		if _, err := o.Resume(e.ctx, p); !errors.As(err, &refused) {
			e.Errorf("resume %+v: error %v, want a FieldError", p, err)
		}
	}
	for _, q := range []outbox.WhyQuery{{}, {Key: "\xff"}} {
		var refused *outbox.FieldError
		if _, err := o.Why(e.ctx, q); !errors.As(err, &refused) {
			e.Errorf("why %+v: error %v, want a FieldError", q, err)
		}
	}
}

func dryRun(e *env) {
	o, r := e.operator(), e.relay()
	e.die(r, msg("a", "", "1"), "error")
	e.publish(msg("a", "", "2"))
	r.take(1)
	before := e.counts()
	for name, do := range map[string]func(c outbox.Change) (outbox.ChangeReport, error){
		"redrive": func(c outbox.Change) (outbox.ChangeReport, error) { return o.Redrive(e.ctx, c) },
		"discard": func(c outbox.Change) (outbox.ChangeReport, error) { return o.Discard(e.ctx, c) },
	} {
		report, err := do(all(outbox.Change{DryRun: true}))
		e.must(err)
		want := outbox.ChangeReport{Matched: 1}
		if name == "discard" {
			want = outbox.ChangeReport{Matched: 2, Held: 1}
		}
		e.equal(name, report, want)
	}
	e.equal("states", e.counts(), before)
}

func continued(e *env) {
	o, r := e.operator(), e.relay()
	e.die(r, msg("a", "", "1"), "error")
	report := o.redrive(all(outbox.Change{}), 1)
	r.deliver(r.takes("1")...)
	e.die(r, msg("a", "", "2"), "error")
	again, err := o.Redrive(e.ctx, outbox.Change{Continue: report.Operation})
	e.must(err)
	e.equal("report", again, report)
	if _, err := o.Retry(e.ctx, outbox.Change{Continue: report.Operation}); err == nil {
		e.Error("a redrive was gone on with as a retry")
	}
}

func retriedByOperator(e *env) {
	o, r := e.operator(), e.relay()
	e.publish(msg("a", "k", "1"), msg("a", "k", "2"))
	ds := r.takes("1", "2")
	r.settled(retried(ds[0], time.Hour), outcome(outbox.Unlisted, ds[1]))
	r.takesNothing()
	o.retry(byKey("k"), 1)
	d := r.take(1, limit(1))[0]
	e.equal("first", string(d.Payload), "1")
	e.equal("attempt", d.Attempt, 2)
	e.equal("generation", d.Generation, 0)
	o.retry(byKey("k"), 0)
	r.deliver(d)
	e.equal("then", r.drain(1), []string{"2"})
}

func retryScheduled(e *env) {
	o, r := e.operator(), e.relay()
	id := e.publish(outbox.Message{Topic: "a", Payload: []byte("scheduled"), Delay: time.Hour})[0].ID
	o.retry(all(outbox.Change{}), 0)
	r.takesNothing()
	o.retry(outbox.Change{Filter: outbox.Filter{IDs: []outbox.ID{id}}}, 1)
	r.takes("scheduled")
}

func discards(e *env) {
	o, r := e.operator(), e.relay()
	e.die(r, msg("a", "k", "dead"), "error")
	e.publish(msg("a", "k", "waiting"))
	r.settled(retried(r.takes("waiting")[0], time.Hour))
	e.publish(msg("a", "k", "ready"), msg("a", "l", "other"))
	e.equal("states", e.counts(), Counts{Ready: 2, Waiting: 1, Dead: 1})
	o.discard(byKey("k"), 3, 0)
	e.equal("delivered", r.drain(1), []string{"other"})
	e.equal("states", e.counts(), Counts{})
}

func discardHeld(e *env) {
	o, r := e.operator(), e.relay()
	e.publish(msg("a", "", "held"))
	ds := r.takes("held")
	e.publish(msg("a", "", "free"))
	o.discard(all(outbox.Change{}), 1, 1)
	r.deliver(ds...)
	e.equal("states", e.counts(), Counts{})
}

func discardLapsed(e *env) {
	o, r, other := e.operator(), e.relay(), e.relay()
	e.publish(msg("a", "", "discarded"), msg("a", "", "kept"))
	ds := r.take(2)
	e.lapse(other)
	discarded, kept := ds[0], ds[1]
	o.discard(outbox.Change{Filter: outbox.Filter{IDs: []outbox.ID{discarded.ID}}}, 1, 0)
	e.refused(r, outbox.SettledBefore, discarded)
	other.takes(string(kept.Payload))
	e.equal("claimed", e.counts(), Counts{Ready: 1, Claimed: 1, Claims: 1})
}

func discardFreesKey(e *env) {
	o, r, other := e.operator(), e.relay(), e.relay()
	e.publish(msg("a", "k", "1"), msg("a", "k", "2"))
	ds := r.takes("1", "2")
	r.settled(retried(ds[0], time.Hour), outcome(outbox.Unlisted, ds[1]))
	other.takesNothing()
	o.discard(outbox.Change{Filter: outbox.Filter{IDs: []outbox.ID{ds[0].ID}}}, 1, 0)
	other.takes("2")
}

func discardWaits(e *env) {
	o, r, other := e.operator(), e.relay(), e.relay()
	for _, kind := range []outbox.OutcomeKind{outbox.Retried, outbox.Died, outbox.Unlisted, outbox.GivenBack, outbox.Delivered} {
		id := e.publish(msg("a", "k", "head"))[0].ID
		d := r.takes("head")[0]
		e.publish(msg("a", "k", "follower"))
		waits := make(chan outbox.ChangeReport, 1)
		began := make(chan struct{}, 1)
		go func() {
			report, err := o.Discard(e.ctx, outbox.Change{Filter: outbox.Filter{IDs: []outbox.ID{id}}, Reason: "test", Wait: 6 * e.patience,
				Progress: func(p outbox.ChangeReport) {
					if p.Waiting {
						select {
						case began <- struct{}{}:
						default:
						}
					}
				}})
			if err != nil {
				e.Errorf("discard: %v", err)
			}
			waits <- report
		}()
		select {
		case <-began:
		case <-waits:
			e.Fatal("did not wait")
		}
		r.settled(outcome(kind, d))
		e.equal("claimed by the other after "+kind.String(), other.drain(1), []string{"follower"})
		report := <-waits
		want := int64(1)
		if kind == outbox.Delivered {
			want = 0
		}
		e.equal("discarded after "+kind.String(), report.Changed, want)
		e.equal("held after "+kind.String(), report.Held, int64(0))
		e.equal("states after "+kind.String(), e.counts(), Counts{})
	}
}

func discardGivesUp(e *env) {
	o, r := e.operator(), e.relay()
	e.publish(msg("a", "", "held"))
	d := r.takes("held")[0]
	o.discard(all(outbox.Change{Wait: 20 * time.Millisecond}), 0, 1)
	r.settled(retried(d, 0))
	r.deliver(r.takes("held")...)
}

func pausedTopic(e *env) {
	o, r, other := e.operator(), e.relay(), e.relay()
	p := outbox.Pause{Topic: "a.*", Reason: "test"}
	o.pause(p)
	e.publish(msg("a.x", "k", "1"), msg("b", "k", "2"), msg("b", "l", "3"), msg("a.y", "", "4"))
	r.deliver(r.takes("3")...)
	r.takesNothing()
	other.takesNothing()
	e.equal("ending another pause", o.resume(outbox.Pause{Topic: "a.>"}).Changed, int64(0))
	r.takesNothing()
	e.equal("resumed", o.resume(p).Changed, int64(1))
	order := r.drain(3)
	if slices.Index(order, "1") > slices.Index(order, "2") {
		e.Errorf("delivered %q", order)
	}
	e.equal("resumed again", o.resume(p).Changed, int64(0))
}

func pausedDestination(e *env) {
	o := e.operator()
	r := e.relay(lane("one", "a"), lane("two", "b"))
	o.pause(outbox.Pause{Destination: "two"})
	e.publish(msg("a", "", "1"), msg("b", "", "2"))
	e.equal("lane one", labels(r.take(1, on("one"))), []string{"1"})
	r.takesNothing(on("two"))
	o.resume(outbox.Pause{Destination: "two"})
	e.equal("lane two", labels(r.take(1, on("two"))), []string{"2"})
}

func pauseLetsFinish(e *env) {
	o, r := e.operator(), e.relay()
	e.publish(msg("a", "k", "1"))
	ds := r.takes("1")
	e.publish(msg("a", "k", "2"))
	o.pause(outbox.Pause{Topic: "a"})
	r.deliver(ds...)
	r.takesNothing()
	o.resume(outbox.Pause{Topic: "a"})
	r.takes("2")
}

func operatorWakes(e *env) {
	o, r := e.operator(), e.relay()
	// Publishing wakes too, so each change is of what was published before.
	for range 3 {
		e.die(r, msg("a", "", "dead"), "error")
	}
	e.wakes(func() {
		o.redrive(all(outbox.Change{}), 3)
		for _, d := range r.take(3) {
			r.settled(outcome(outbox.Died, d))
		}
	})
	again := func() {
		for _, d := range r.take(3) {
			r.settled(retried(d, time.Hour))
		}
	}
	o.redrive(all(outbox.Change{}), 3)
	again()
	e.wakes(func() {
		o.retry(all(outbox.Change{}), 3)
		again()
	})
	e.wakes(func() {
		o.pause(outbox.Pause{Topic: "b"})
		o.resume(outbox.Pause{Topic: "b"})
	})
}
