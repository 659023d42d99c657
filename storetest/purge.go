package storetest

import (
	"time"

	"github.com/outboxrelay/outbox"
)

func purgeCases() []Case {
	return []Case{
		{"a purge forgets what has ended and what is dead, and never the rest", NothingLost, purges},
		{"a purge goes by states, topic and age", NothingLost, purgeFilters},
		{"a purge leaves what holds a key unless it is told to", OrderPerKey, purgeLeavesHolders},
		{"what operators did is listed", NothingLost, operationsListed},
	}
}

// archivist is the operator of a store that keeps what has ended.
func (o operator) archivist() outbox.Archivist {
	o.e.Helper()
	a, ok := o.Operator.(outbox.Archivist)
	if !ok {
		o.e.Fatalf("the operator of a store that keeps messages is no outbox.Archivist: %T", o.Operator)
	}
	return a
}

func (o operator) purge(c outbox.Change, changed, held int64) outbox.ChangeReport {
	o.e.Helper()
	r, err := o.archivist().Purge(o.e.ctx, c)
	o.e.must(err)
	o.e.equal("purged", r.Changed, changed)
	o.e.equal("left alone", r.Held, held)
	return r
}

func purges(e *env) {
	o, r := e.operator(), e.keeper(true)
	e.die(r, msg("a", "", "dead"), "error")
	e.publish(msg("a", "k", "delivered"))
	r.deliver(r.takes("delivered")...)
	e.publish(msg("a", "", "waiting"))
	r.settled(retried(r.takes("waiting")[0], lease))
	e.publish(msg("a", "", "held"))
	held := r.takes("held")
	e.publish(msg("a", "", "ready"))
	report, err := o.archivist().Purge(e.ctx, all(outbox.Change{DryRun: true}))
	e.must(err)
	e.equal("a dry run finds", report.Matched, int64(2))
	o.purge(all(outbox.Change{}), 2, 0)
	e.equal("what is left", e.counts(), Counts{Ready: 2, Waiting: 1, Claimed: 1, Claims: 1})
	e.equal("what is kept", len(e.archived()), 0)
	r.deliver(held...)
	for _, wrong := range []outbox.Change{{}, {Filter: outbox.Filter{States: []outbox.State{outbox.StateReady}}},
		{Filter: outbox.Filter{States: []outbox.State{}}}, {Filter: outbox.Filter{All: true, Topic: "a"}}} {
		if _, err := o.archivist().Purge(e.ctx, wrong); err == nil {
			e.Errorf("%+v is not refused", wrong)
		}
	}
}

func purgeFilters(e *env) {
	o, r := e.operator(), e.keeper(true)
	for _, topic := range []string{"a", "b"} {
		e.die(r, msg(topic, "", topic+" dead"), "error")
		e.publish(msg(topic, "", topic))
		r.deliver(r.takes(topic)...)
		e.publish(msg(topic, "", topic+" expired"))
		r.settled(outcome(outbox.Expired, r.takes(topic + " expired")[0]))
		e.advance(time.Hour, r)
	}
	by := func(states ...outbox.State) outbox.Filter { return outbox.Filter{States: states} }
	old := by(outbox.StateDelivered, outbox.StateExpired)
	old.OlderThan = 90 * time.Minute
	o.purge(outbox.Change{Filter: old}, 2, 0)
	e.equal("what is kept", len(e.archived()), 2)
	topic := by(outbox.StateDead, outbox.StateExpired)
	topic.Topic = "b"
	o.purge(outbox.Change{Filter: topic}, 2, 0)
	e.equal("what is left", e.counts(), Counts{Dead: 1})
	limited := by(outbox.StateDelivered, outbox.StateDead)
	limited.Limit = 1
	report := o.purge(outbox.Change{Filter: limited}, 1, 0)
	again, err := o.archivist().Purge(e.ctx, outbox.Change{Continue: report.Operation})
	e.must(err)
	e.equal("purged in all", again.Changed, int64(1))
	e.equal("what is left", e.counts().Dead+len(e.archived()), 1)
}

func purgeLeavesHolders(e *env) {
	o, r := e.operator(), e.relay()
	e.publish(msg("a", "k", "1"), msg("a", "k", "2"))
	ds := r.takes("1", "2")
	r.settled(parked(ds[0]), outcome(outbox.Unlisted, ds[1]))
	e.die(r, msg("a", "l", "3"), "error")
	r.takesNothing()
	o.purge(outbox.Change{Filter: outbox.Filter{States: []outbox.State{outbox.StateDead}}}, 1, 1)
	r.takesNothing()
	e.equal("what is left", e.counts(), Counts{Ready: 1, Dead: 1})
	o.purge(outbox.Change{Filter: outbox.Filter{States: []outbox.State{outbox.StateDead}}, Holding: true}, 1, 0)
	r.deliver(r.takes("2")...)
	e.equal("what is left", e.counts(), Counts{})
}

func operationsListed(e *env) {
	o, r := e.operator(), e.relay()
	e.die(r, msg("a", "", "1"), "error")
	o.pause(outbox.Pause{Topic: "b.>", Actor: "ann", Reason: "wrong prices"})
	report, err := o.Redrive(e.ctx, outbox.Change{Filter: outbox.Filter{Topic: "a"}, Actor: "bob", Reason: "fixed"})
	e.must(err)
	list, err := o.archivist().Operations(e.ctx, 0)
	e.must(err)
	e.equal("how many", len(list), 2)
	redrive, pause := list[0], list[1]
	e.equal("id", redrive.ID, report.Operation)
	e.equal("verbs", []string{redrive.Verb, pause.Verb}, []string{"redrive", "pause"})
	e.equal("who and why", []string{redrive.Actor, redrive.Reason, pause.Actor, pause.Reason}, []string{"bob", "fixed", "ann", "wrong prices"})
	e.equal("topics", []string{redrive.Filter["topic"], pause.Filter["topic"]}, []string{"a", "b.>"})
	e.equal("changed", redrive.Changed, int64(1))
	e.equal("state", redrive.State, "done")
	e.equal("how to go on", redrive.Release(), "")
	if redrive.StartedAt.IsZero() || redrive.FinishedAt.Before(redrive.StartedAt) {
		e.Errorf("from %v to %v", redrive.StartedAt, redrive.FinishedAt)
	}
	list, err = o.archivist().Operations(e.ctx, 1)
	e.must(err)
	e.equal("the newest", list[0].ID, redrive.ID)
	if _, err := o.archivist().Operations(e.ctx, -1); err == nil {
		e.Error("a limit of -1 is not refused")
	}
}
