package outbox

import (
	"context"
	"time"
)

// Hooks observe a relay. Every field may be nil. Hooks are called on the relay's goroutines and must be
// quick and safe for concurrent use.
type Hooks struct {
	// Event is told of everything that changes a message's or the relay's state.
	Event func(ctx context.Context, e Event)
}

// EventKind is what an Event tells.
type EventKind uint8

const (
	// EventClaimed: Count messages were claimed by Destination's lane.
	EventClaimed EventKind = iota + 1
	// EventDelivering: an attempt begins.
	EventDelivering
	// EventResult: an attempt ended; Err is its error, Took its time.
	EventResult
	// EventSettled: Outcome took effect.
	EventSettled
	// EventFenced: Outcome was refused, because another relay had taken the claim over.
	EventFenced
	// EventBeat: a heartbeat extended the lease.
	EventBeat
	// EventLeaseLost: the relay had to let go of everything and begins again under a new id.
	EventLeaseLost
	// EventClosed: Topic's handler, or the whole destination when Topic is empty, is unavailable for Took.
	EventClosed
	// EventStuck: a sink ignores its cancelled context, with Count messages in hand; Delivery is set unless it
	// is a batch.
	EventStuck
	// EventStoreFailed: a call of the store failed with Err and will be repeated.
	EventStoreFailed
	// EventWaiting: the lane found nothing to claim and waits.
	EventWaiting
)

// Event is one observation. Only the fields that its kind names are set.
type Event struct {
	Kind        EventKind
	Relay       ID
	Destination string
	Topic       string
	Delivery    *Delivery
	Outcome     Outcome
	Count       int
	Took        time.Duration
	Err         error
}
