package storetest

import (
	"errors"
	"strings"
	"time"

	"github.com/outboxrelay/outbox"
)

// gone is a destination that a replay has bound messages to and that is taken out of the configuration since.
const gone = "gone"

func boundCases() []Case {
	return []Case{
		{"a bound message that was given back, or whose relay died, goes to its one destination", NothingLost, boundStaysBound},
		{"a message that is bound to a destination which is gone waits until the routes decide again", NothingLost, boundToNobody},
		{"the routes do not decide again about what a live relay holds", NoDouble, boundInFlight},
		{"a suspect stays one when the routes decide again", AttemptsCount, boundSuspect},
		{"a dead message that nobody would take where it is bound to is redriven by route only", NothingLost, boundDead},
		{"a filter means what is bound to a destination", NothingLost, boundFilter},
		{"Why tells of a destination that is gone, and of one that does not get the topic", Prompt, whyBound},
		{"Why tells of dead messages that do not hold their key, and of what has ended and is kept", Prompt, whyNothing},
	}
}

// bind publishes messages, has them delivered, and replays them to a destination.
func (e *env) bind(r *relay, destination string, ms ...outbox.Message) {
	e.Helper()
	for _, m := range ms {
		e.publish(m)
		r.deliver(r.takes(string(m.Payload))...)
	}
	e.operator().replay(outbox.Change{Filter: outbox.Filter{Topic: ms[0].Topic}, Destination: destination}, int64(len(ms)))
}

func byRoute(destination string) outbox.Change {
	return outbox.Change{Filter: outbox.Filter{BoundTo: destination}, ByRoute: true, Reason: "test"}
}

func boundStaysBound(e *env) {
	lanes := []outbox.LaneInfo{lane("one", ">"), lane("two", ">")}
	r := e.keeper(true, lanes...)
	e.bind(r, "two", msg("a", "k", "1"), msg("a", "", "2"))
	r.settled(outcomes(outbox.GivenBack, r.take(2, on("two"))...)...)
	r.takesNothing(on("one"))
	r.take(2, on("two"))
	other := e.keeper(true, lanes...)
	e.lapse(other)
	other.takesNothing(on("one"))
	other.deliver(other.take(2, on("two"))...)
	e.equal("states", e.counts(), Counts{})
}

func boundToNobody(e *env) {
	o, r := e.operator(), e.keeper(true, lane("one", ">"), lane(gone, ">"))
	e.bind(r, gone, msg("a", "k", "1"), msg("a", "k", "2"))
	e.equal("in flight", labels(r.take(1, on(gone), limit(1))), []string{"1"})
	other := e.keeper(true, lane("one", ">"))
	e.lapse(other)
	other.takesNothing()
	e.publish(msg("a", "k", "3"))
	ds := other.takes("3")
	dry, err := o.Retry(e.ctx, outbox.Change{Filter: outbox.Filter{BoundTo: gone}, ByRoute: true, DryRun: true})
	e.must(err)
	e.equal("matched by a dry run", dry.Matched, int64(2))
	other.takesNothing()
	report := o.retry(byRoute(gone), 2)
	other.takesNothing() // its key is in flight
	e.publish(msg("a", "k", "4"))
	other.deliver(ds...)
	for _, label := range []string{"1", "2"} {
		d := other.take(1, limit(1))[0]
		e.equal("label", string(d.Payload), label)
		e.equal("generation", d.Generation, 1)
		e.equal("attempt", d.Attempt, 1)
		other.deliver(d)
	}
	e.equal("then", other.drain(1), []string{"4"})
	o.retry(byRoute(gone), 0)
	again, err := o.Retry(e.ctx, outbox.Change{Continue: report.Operation})
	e.must(err)
	e.equal("report", again, report)
	ops, err := o.archivist().Operations(e.ctx, 10)
	e.must(err)
	for _, op := range ops {
		if op.ID == report.Operation && (op.Filter["destination"] != gone || op.Filter["by_route"] != "true" || op.Reason != "test") {
			e.Errorf("operation %+v", op)
		}
	}
}

func boundInFlight(e *env) {
	o, r := e.operator(), e.keeper(true, lane("one", ">"), lane("two", ">"))
	e.bind(r, "two", msg("a", "k", "1"))
	ds := r.take(1, on("two"))
	report := o.retry(byRoute("two"), 0)
	e.equal("held", report.Held, int64(1))
	r.takesNothing(on("one"))
	r.settled(retried(ds[0], time.Hour))
	r.takesNothing(on("one"))
	o.retry(byRoute("two"), 1)
	d := r.take(1, on("one"))[0]
	e.equal("attempt", d.Attempt, 2)
	e.equal("generation", d.Generation, 1)
}

func boundSuspect(e *env) {
	o, r := e.operator(), e.keeper(true, lane("one", ">"), lane(gone, ">"))
	e.bind(r, gone, msg("a", "k", "1"))
	for range outbox.SuspectLapses {
		e.relay(lane(gone, ">")).take(1)
		e.lapse()
	}
	other := e.relay(lane("one", ">"))
	other.takesNothing()
	o.retry(byRoute(gone), 1)
	other.takesSuspect("1", outbox.SuspectLapses)
}

func boundDead(e *env) {
	o, r := e.operator(), e.keeper(true, lane("one", ">"), lane(gone, ">"))
	e.bind(r, gone, msg("a", "k", "1"))
	r.settled(parked(r.take(1, on(gone))[0]))
	r.stop()
	for _, lanes := range [][]outbox.LaneInfo{{lane("one", ">")}, {lane("one", ">"), lane(gone, "b")}} {
		other := e.relay(lanes...)
		report, err := o.Redrive(e.ctx, all(outbox.Change{DryRun: true}))
		e.must(err)
		e.equal("left alone by a dry run", report.Held, int64(1))
		report = o.redrive(all(outbox.Change{}), 0)
		e.equal("left alone", []int64{report.Matched, report.Held}, []int64{1, 1})
		other.takesNothing()
	}
	e.equal("states", e.counts(), Counts{Dead: 1})
	back := e.relay(lane(gone, "a"))
	o.redrive(all(outbox.Change{}), 1)
	back.settled(outcome(outbox.Died, back.take(1)[0]))
	back.stop()
	o.redrive(byRoute(gone), 1)
	d := e.relay(lane("one", ">")).take(1)[0]
	e.equal("generation", d.Generation, 3)
	e.equal("attempt", d.Attempt, 1)
	e.equal("states", e.counts(), Counts{Waiting: 1, Claimed: 1, Claims: 1})
}

func boundFilter(e *env) {
	o, r := e.operator(), e.keeper(true, lane("one", ">"), lane(gone, ">"))
	e.bind(r, gone, msg("a", "", "1"), msg("a", "", "2"))
	r.settled(outcome(outbox.Died, r.take(1, on(gone), limit(1))[0]))
	e.die(r, msg("b", "", "dead by route"), "error")
	e.publish(msg("a", "", "by route"))
	for f, want := range map[string]int64{"one": 0, gone: 2} {
		report, err := o.Discard(e.ctx, outbox.Change{Filter: outbox.Filter{BoundTo: f}, DryRun: true})
		e.must(err)
		e.equal("bound to "+f, report.Matched, want)
	}
	report, err := o.Redrive(e.ctx, outbox.Change{Filter: outbox.Filter{BoundTo: gone, Topic: "b"}, DryRun: true})
	e.must(err)
	e.equal("of another topic", report.Matched, int64(0))
	o.discard(outbox.Change{Filter: outbox.Filter{BoundTo: gone}}, 2, 0)
	e.equal("states", e.counts(), Counts{Waiting: 0, Dead: 1, Ready: 1, Claimed: 0})
	for verb, changes := range map[string][]outbox.Change{
		"retry": {{Filter: outbox.Filter{BoundTo: "No Name"}}, all(outbox.Change{ByRoute: true}), {Filter: outbox.Filter{BoundTo: gone, All: true}},
			{Continue: 1, ByRoute: true}, {Filter: outbox.Filter{BoundTo: gone}, Destination: gone}},
		"redrive": {all(outbox.Change{ByRoute: true})},
		"discard": {byRoute(gone), {Filter: outbox.Filter{BoundTo: gone, States: []outbox.State{outbox.StateReady}}}},
		"purge":   {{Filter: outbox.Filter{BoundTo: gone}}},
		"replay":  {{Filter: outbox.Filter{BoundTo: gone}, Destination: "one"}},
	} {
		do := map[string]func(c outbox.Change) error{
			"retry":   func(c outbox.Change) error { _, err := o.Retry(e.ctx, c); return err },
			"redrive": func(c outbox.Change) error { _, err := o.Redrive(e.ctx, c); return err },
			"discard": func(c outbox.Change) error { c.Reason = "test"; _, err := o.Discard(e.ctx, c); return err },
			"purge":   func(c outbox.Change) error { _, err := o.archivist().Purge(e.ctx, c); return err },
			"replay":  func(c outbox.Change) error { _, err := o.archivist().Replay(e.ctx, c); return err },
		}[verb]
		for _, c := range changes {
			var refused *outbox.FieldError
			if err := do(c); !errors.As(err, &refused) {
				e.Errorf("%s of %+v: error %v, want a FieldError", verb, c, err)
			}
		}
	}
}

func whyBound(e *env) {
	o, r := e.operator(), e.keeper(true, lane("one", ">"), lane(gone, ">"))
	e.bind(r, gone, msg("a", "k", "1"))
	id := e.archived()[0].ID
	ask := func(command, text string, destinations ...string) {
		e.Helper()
		for _, q := range []outbox.WhyQuery{{ID: id}, {Key: "k"}} {
			w, err := o.Why(e.ctx, q)
			e.must(err)
			if w.Message == nil || w.Message.ID != id || w.Message.Destination != gone || w.Head != nil {
				e.Fatalf("%+v: %+v", w, w.Message)
			}
			e.equal("destinations", append([]string{}, w.Message.Destinations...), append([]string{}, destinations...))
			e.leads(w, command)
			if reasons := w.Reasons(); !strings.Contains(reasons[len(reasons)-1].Text, text) {
				e.Errorf("the reason is %q, want %q", reasons[len(reasons)-1].Text, text)
			}
		}
	}
	release := " --id " + id.String() + " --destination gone --by-route"
	ask("outbox status", "nothing keeps it", gone)
	r.stop()
	ask("outbox run", "no relay runs")
	other := e.relay(lane("one", ">"))
	ask("outbox retry"+release, "bound to destination gone, which no live relay has")
	// It holds its key where nobody is.
	later := e.publish(msg("a", "k", "2"))[0].ID
	w, err := o.Why(e.ctx, outbox.WhyQuery{ID: later})
	e.must(err)
	e.equal("head of the next one", w.Head, (*outbox.MessageState)(nil))
	keys, err := o.Keys(e.ctx, 0)
	e.must(err)
	e.equal("held keys", len(keys.Holds), 0)
	other.deliver(other.takes("2")...)
	e.relay(lane(gone, "b"))
	ask("outbox retry"+release, "bound to destination gone, where no live relay delivers topic a")
	back := e.relay(lane(gone, ">"))
	ask("outbox status", "nothing keeps it", gone)
	back.settled(outcome(outbox.Died, back.take(1)[0]))
	back.stop()
	w, err = o.Why(e.ctx, outbox.WhyQuery{ID: id})
	e.must(err)
	e.leads(w, "outbox redrive"+release)
}

func whyNothing(e *env) {
	o, r := e.operator(), e.keeper(true, lane(defaultLane, "a"))
	e.die(r, msg("a", "k", "1"), "error")
	e.die(r, msg("a", "k", "2"), "error")
	w, err := o.Why(e.ctx, outbox.WhyQuery{Key: "k"})
	e.must(err)
	if w.Message != nil || w.Dead != (outbox.Depth{Messages: 2}) || !w.IsExplained() {
		e.Errorf("the dead ones: %+v", w)
	}
	e.leads(w, "outbox redrive --key k")
	id := e.publish(msg("nobody", "k", "3"))[0].ID
	w, err = o.Why(e.ctx, outbox.WhyQuery{Key: "k"})
	e.must(err)
	if w.Message == nil || w.Message.ID != id || w.Dead != (outbox.Depth{Messages: 2}) {
		e.Fatalf("one that nobody delivers: %+v", w)
	}
	e.leads(w, "outbox relays")
	id = e.publish(msg("a", "", "4"))[0].ID
	r.deliver(r.takes("4")...)
	w, err = o.Why(e.ctx, outbox.WhyQuery{ID: id})
	e.must(err)
	if w.Message != nil || w.Ended == nil || w.Ended.State != outbox.StateDelivered || w.Ended.Destination != defaultLane || w.Ended.EndedAt.IsZero() ||
		w.Ended.Message.Topic != "a" || !w.IsExplained() {
		e.Errorf("one that is kept: %+v, %+v", w, w.Ended)
	}
	e.leads(w, "outbox show "+id.String())
	for _, q := range []outbox.WhyQuery{{Key: "other"}, {ID: outbox.NewID()}} {
		if w, err = o.Why(e.ctx, q); err != nil || w.IsExplained() {
			e.Errorf("%+v: %+v, %v", q, w, err)
		}
	}
}
