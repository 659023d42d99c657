package storetest

import (
	"time"

	"github.com/outboxrelay/outbox"
)

func replayCases() []Case {
	return []Case{
		{"a replayed message is delivered again to its one destination, a generation on", NothingLost, replayed},
		{"replayed messages go before what is younger of their key, in order", OrderPerKey, replayedInOrder},
		{"a replayed message holds its key in its destination only", Prompt, replayedHoldsThere},
		{"a replay outlives the life of its messages", NothingLost, replayedOutlives},
		{"what is under way already is not replayed", NoDouble, replayedOnce},
		{"what was kept without payload is not replayed", NothingLost, replayNeedsPayload},
	}
}

func (o operator) replay(c outbox.Change, changed int64) outbox.ChangeReport {
	o.e.Helper()
	if c.Destination == "" {
		c.Destination = defaultLane
	}
	r, err := o.archivist().Replay(o.e.ctx, c)
	o.e.must(err)
	o.e.equal("replayed", r.Changed, changed)
	return r
}

func replayed(e *env) {
	one, two := lane("one", ">"), lane("two", ">")
	o, r := e.operator(), e.keeper(true, one, two)
	id := e.publish(msg("a", "k", "1"))[0].ID
	r.deliver(r.takes("1")...)
	for generation := 1; generation <= 2; generation++ {
		o.replay(outbox.Change{Filter: outbox.Filter{Topic: "a"}, Destination: "two"}, 1)
		e.equal("states", e.counts(), Counts{Waiting: 1})
		r.takesNothing(on("one"))
		d := r.take(1, on("two"))[0]
		e.equal("id", d.ID, id)
		e.equal("generation", d.Generation, generation)
		e.equal("attempt", d.Attempt, 1)
		r.deliver(d)
	}
	var generations []int
	var destinations []string
	for _, a := range e.archived() {
		generations, destinations = append(generations, a.Generation), append(destinations, a.Destination)
	}
	e.equal("generations kept", generations, []int{0, 1, 2})
	e.equal("where they went", destinations, []string{"one", "two", "two"})
	for _, wrong := range []outbox.Change{all(outbox.Change{}), all(outbox.Change{Destination: "No Name"}), {Destination: "two"},
		{Destination: "two", Filter: outbox.Filter{States: []outbox.State{outbox.StateDead}}}} {
		if _, err := o.archivist().Replay(e.ctx, wrong); err == nil {
			e.Errorf("%+v is not refused", wrong)
		}
	}
}

func replayedInOrder(e *env) {
	o, r := e.operator(), e.keeper(true)
	for _, label := range []string{"1", "2", "3"} {
		e.publish(msg("a", "k", label))
		r.deliver(r.takes(label)...)
	}
	e.publish(msg("a", "k", "4"))
	o.replay(outbox.Change{Filter: outbox.Filter{Key: "k"}, Rate: 1000}, 3)
	e.equal("delivered", r.drain(4), []string{"1", "2", "3", "4"})
}

func replayedHoldsThere(e *env) {
	r := e.keeper(true, lane("one", ">"), lane("two", ">"))
	o := e.operator()
	e.publish(msg("a", "k", "1"))
	r.deliver(r.takes("1")...)
	o.replay(outbox.Change{Filter: outbox.Filter{Key: "k"}, Destination: "two"}, 1)
	e.publish(msg("a", "k", "2"))
	e.equal("labels", labels(r.take(1, on("one"))), []string{"2"})
	e.equal("labels", labels(r.take(1, on("two"))), []string{"1"})
}

func replayedOutlives(e *env) {
	o, r := e.operator(), e.keeper(true)
	e.publish(outbox.Message{Topic: "a", Payload: []byte("1"), TTL: time.Minute})
	r.deliver(r.takes("1")...)
	e.advance(time.Hour, r)
	o.replay(all(outbox.Change{}), 1)
	if d := r.takes("1")[0]; !d.ExpiresAt.IsZero() || !d.Deadline.IsZero() {
		e.Errorf("it ends at %v, %v", d.ExpiresAt, d.Deadline)
	}
}

func replayedOnce(e *env) {
	o, r := e.operator(), e.keeper(true)
	e.publish(msg("a", "k", "1"))
	r.deliver(r.takes("1")...)
	o.replay(all(outbox.Change{}), 1)
	waiting := o.replay(all(outbox.Change{}), 0)
	r.settled(outcome(outbox.Died, r.takes("1")[0]))
	dead := o.replay(all(outbox.Change{}), 0)
	e.equal("left alone", []int64{waiting.Held, dead.Held}, []int64{1, 1})
	e.equal("states", e.counts(), Counts{Dead: 1})
}

func replayNeedsPayload(e *env) {
	o, r := e.operator(), e.keeper(false)
	e.publish(msg("a", "k", "1"))
	r.deliver(r.takes("1")...)
	dry, err := o.archivist().Replay(e.ctx, all(outbox.Change{Destination: defaultLane, DryRun: true}))
	e.must(err)
	report := o.replay(all(outbox.Change{}), 0)
	e.equal("without payload", []int64{dry.NoPayload, report.NoPayload}, []int64{1, 1})
	e.equal("states", e.counts(), Counts{})
}
