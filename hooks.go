package outbox

import (
	"context"
	"time"
)

// Hooks observe publishers and relays, and may put something of theirs into the contexts of both. Every field may be
// nil, and costs nothing then. Hooks are called on the goroutines that publish and deliver: they must be quick and
// safe for concurrent use. A hook that panics changes nothing but the log. JoinHooks makes several one. Package otelhook
// has those for OpenTelemetry.
type Hooks struct {
	// PublishStart is called before messages are checked and sent. The slice is the hook's to change: a message gets a
	// header by a new map, since the one that is there is the caller's. The context that it returns is used from there on.
	PublishStart func(ctx context.Context, ms []Message) context.Context
	// PublishEnd is called with that context when the messages are in the caller's transaction, whose commit nobody
	// sees here, or with the error.
	PublishEnd func(ctx context.Context, receipts []Receipt, err error)

	// DeliverStart is called before each attempt. The context that it returns is the sink's or handler's. Messages that
	// go to a BatchSink have it called too, below the context of BatchStart; what it returns is then only DeliverEnd's.
	DeliverStart func(ctx context.Context, d *Delivery) context.Context
	// DeliverEnd is called with that context when the attempt's result is known, before it is stored.
	DeliverEnd func(ctx context.Context, d *Delivery, r Result)
	// BatchStart is called before each call of a BatchSink, whose context it returns.
	BatchStart func(ctx context.Context, destination string, ds []*Delivery) context.Context
	// BatchEnd is called with that context when the call has returned, with its error: results are reported one by one.
	BatchEnd func(ctx context.Context, err error)

	// RelayStart is called when a relay begins, with what it delivers.
	RelayStart func(ctx context.Context, lanes []LaneInfo)
	// Sampled gets what this relay finds when it looks how the outbox is doing; nil when it does not look any longer,
	// because it stops or another relay does. Of all relays that have this hook one looks, every Config.SampleInterval.
	Sampled func(ctx context.Context, s *Sample)
	// Streaming is told every second how the store's stream of new messages is doing, if it is a Streamer; when the relay
	// stops, that there is none any longer.
	Streaming func(ctx context.Context, s Streaming)
	// Event is told of everything that changes a message's or the relay's state.
	Event func(ctx context.Context, e Event)
}

// Result is how an attempt ended.
type Result struct {
	Destination string
	// Kind is what is to become of the message; zero if that is not this relay's to say, because its lease is lost.
	Kind OutcomeKind
	// Err is what the sink or handler returned, or its panic; nil: it accepted the message.
	Err error
	// Class of a failure that was the message's.
	Class string
	// Took is the time of the attempt.
	Took time.Duration
	// Age is the time from the message's publishing to its result, by the database's clock as far as it is known.
	Age time.Duration
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
	// EventSettled: Outcome, of a message of Topic, took effect.
	EventSettled
	// EventFenced: Outcome, of a message of Topic, was refused, because another relay had taken the claim over.
	EventFenced
	// EventBeat: a heartbeat extended the lease.
	EventBeat
	// EventLeaseLost: the relay had to let go of everything and begins again under a new id.
	EventLeaseLost
	// EventClosed: Topic's handler, or the whole destination when Topic is empty, is unavailable for Took.
	EventClosed
	// EventFault: what is wrong with Destination has changed; Fault is nil when it is available again.
	EventFault
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
	Fault       *Fault
	Count       int
	Took        time.Duration
	Err         error
}
