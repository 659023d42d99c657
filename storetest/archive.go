package storetest

import (
	"context"
	"testing"

	"github.com/outboxrelay/outbox"
)

// ArchiveHarness is a Harness of a store that can keep messages which have ended. Without it the cases about what is kept
// are skipped.
type ArchiveHarness interface {
	OperatorHarness
	// OpenKeeping is Open for a Store that keeps what it ends, for ever, with payload or without. What the outbox's operators
	// discard is kept from then on, too.
	OpenKeeping(t testing.TB, payload bool) outbox.Store
	// Archived lists what is kept, by publish order and generation.
	Archived(ctx context.Context) ([]Archived, error)
}

// Archived is a message that has ended and is kept.
type Archived struct {
	ID            outbox.ID
	Key, Payload  string
	State         outbox.State
	Detail, Actor string
	Destination   string
	Attempts      int
	Generation    int
}

func archiveCases() []Case {
	return []Case{
		{"what has ended is kept with what became of it", NothingLost, endsAreKept},
		{"what is kept without payload has all but that", NothingLost, keptBare},
		{"a discarded message is kept with who did it and why", NothingLost, discardedIsKept},
		{"a refused result keeps nothing", NoDouble, fencedKeepsNothing},
	}
}

func (e *env) archiver() ArchiveHarness {
	e.Helper()
	h, ok := e.h.(ArchiveHarness)
	if !ok {
		e.Skip("the store keeps nothing")
	}
	return h
}

// ifKept runs the cases for stores that declare Archive.
func ifKept(cases []Case) []Case {
	for i, c := range cases {
		cases[i].run = func(e *env) {
			if !e.h.Features().Archive {
				e.Log("the store does not declare Archive")
				return
			}
			c.run(e)
		}
	}
	return cases
}

// keeper is a relay whose store keeps what it ends.
func (e *env) keeper(payload bool, lanes ...outbox.LaneInfo) *relay {
	e.Helper()
	r := e.unregistered(lanes...)
	r.store = e.archiver().OpenKeeping(e.TB, payload)
	_, err := r.store.Beat(e.ctx, r.info, nil)
	e.must(err)
	return r
}

func (e *env) archived() []Archived {
	e.Helper()
	list, err := e.archiver().Archived(e.ctx)
	e.must(err)
	return list
}

func endsAreKept(e *env) {
	r := e.keeper(true)
	ids := e.publish(msg("a", "", "whole"), msg("a", "k", "whole too"), msg("a", "", "part"), msg("a", "l", "dropped"),
		msg("b", "", "expired"), msg("b", "", "retried"), msg("b", "", "dead"))
	whole := r.take(2, limit(2))
	r.deliver(whole...)
	ds := r.take(5)
	dropped := outcome(outbox.Dropped, ds[1])
	dropped.Text = "a duplicate"
	r.settled(outcome(outbox.Delivered, ds[0]), dropped, outcome(outbox.Expired, ds[2]), retried(ds[3], 0), outcome(outbox.Died, ds[4]))
	r.deliver(r.takes("retried")...)
	kept := func(i int, payload, key string, a Archived) Archived {
		a.ID, a.Payload, a.Key, a.Destination = ids[i].ID, payload, key, defaultLane
		return a
	}
	e.equal("what is kept", e.archived(), []Archived{
		kept(0, "whole", "", Archived{State: outbox.StateDelivered, Attempts: 1}),
		kept(1, "whole too", "k", Archived{State: outbox.StateDelivered, Attempts: 1}),
		kept(2, "part", "", Archived{State: outbox.StateDelivered, Attempts: 1}),
		kept(3, "dropped", "l", Archived{State: outbox.StateDropped, Attempts: 1, Detail: "a duplicate"}),
		kept(4, "expired", "", Archived{State: outbox.StateExpired}),
		kept(5, "retried", "", Archived{State: outbox.StateDelivered, Attempts: 2}),
	})
	e.equal("what is left", e.counts(), Counts{Dead: 1})
}

func keptBare(e *env) {
	r := e.keeper(false)
	id := e.publish(msg("a", "k", "secret"))[0].ID
	r.deliver(r.takes("secret")...)
	e.equal("what is kept", e.archived(), []Archived{
		{ID: id, Key: "k", State: outbox.StateDelivered, Attempts: 1, Destination: defaultLane}})
}

func discardedIsKept(e *env) {
	o, r := e.operator(), e.keeper(true)
	dead := e.die(r, msg("a", "k", "dead"), "error")
	ids := e.publish(msg("a", "k", "ready"), msg("b", "", "waiting"))
	r.settled(retried(r.take(1, closed("a"))[0], lease))
	_, err := o.Discard(e.ctx, outbox.Change{Filter: outbox.Filter{All: true}, Actor: "ann", Reason: "order 7 is gone"})
	e.must(err)
	a := Archived{State: outbox.StateDiscarded, Detail: "order 7 is gone", Actor: "ann"}
	kept := func(id outbox.ID, payload, key string, attempts int) Archived {
		a.ID, a.Payload, a.Key, a.Attempts = id, payload, key, attempts
		return a
	}
	e.equal("what is kept", e.archived(), []Archived{
		kept(dead, "dead", "k", 1), kept(ids[0].ID, "ready", "k", 0), kept(ids[1].ID, "waiting", "", 1)})
	e.equal("what is left", e.counts(), Counts{})
}

func fencedKeepsNothing(e *env) {
	r, other := e.keeper(true), e.keeper(true)
	e.publish(msg("a", "", "1"))
	late := r.takes("1")[0]
	e.advance(2*lease, other)
	other.deliver(other.takes("1")...)
	e.equal("answer to the late one", r.settle(outcome(outbox.Delivered, late)), []outbox.Settled{outbox.SettledBefore})
	e.equal("how often it is kept", len(e.archived()), 1)
}
