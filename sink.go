package outbox

import (
	"context"
	"time"
)

// Sink delivers messages to one destination. Returning nil means that the destination has the message; what
// an error means is said with Permanent, RetryAfter, Unavailable and Drop, a plain error is a failed attempt.
// A sink never retries by itself. Deliver is called concurrently, up to the route's slots, but for one key
// only one call at a time unless the topic's order is none. The context ends at the time limit, when the
// lease is lost or when the relay stops: context.Cause tells which.
type Sink interface {
	Deliver(ctx context.Context, d *Delivery) error
}

// BatchSink is a Sink that takes several messages with one call. Routes to one hold 2,000 messages at a time
// unless they say otherwise, and several calls may be under way, together with no more messages than that.
//
// DeliverBatch calls report once for each message as soon as its result is known, with its index in ds and an
// error as Deliver returns it, from any goroutine. The slot is free at once, and the next message of its key
// goes out with another call. Messages that are not reported when DeliverBatch returns have the returned error,
// or ErrUnreported if that is nil; what is reported later or twice is ignored. One call's messages all have
// different keys, unless their topic's order is none or the sink is a Pipeliner that pipelines. ds belongs to the sink, the deliveries are read-only.
//
// The context ends at the longest time limit of the messages, when the lease is lost or when the relay stops;
// DeliverBatch then returns without delay. If it panics with one message unreported, that one has failed; if
// with several, each of them is delivered again by a call of its own.
type BatchSink interface {
	Sink
	DeliverBatch(ctx context.Context, ds []*Delivery, report func(i int, err error)) error
}

// Pipeliner is a BatchSink whose destination keeps the order of one call's messages by itself, and which may
// declare that it does. Without that a key costs the time of a round trip for each of its messages, because the next
// one is sent when the last one has been accepted.
type Pipeliner interface {
	BatchSink
	// Pipelines is asked once, by NewRelay. If it is true, a call may have many messages of a key, in order, and
	// the next call with that key comes when all of them have their results.
	//
	// What a failure may reorder: when a message fails, those behind it in the same call may have been accepted
	// already. They are delivered, and the failed one comes after them when it is retried, whatever the topic's
	// Order. Messages behind the call's own wait, as they do behind any head that failed.
	Pipelines() bool
}

// Pinger is a Sink whose destination can be asked whether it is there. After Unavailable the relay asks, at
// growing distances, instead of trying with a message. Deliveries after a ping are on trial: if they say
// Unavailable again, the distance grows further.
type Pinger interface {
	Ping(ctx context.Context) error
}

// Preflighter is a Sink that can tell a destination that is not fit to take messages. The relay calls
// Preflight before the first delivery, every few minutes, and before each probe while the destination is
// unavailable. An error, of whatever kind, makes the destination unavailable and is logged once; it costs no
// message an attempt.
type Preflighter interface {
	Preflight(ctx context.Context) error
}

// SinkFunc makes a function a Sink.
type SinkFunc func(ctx context.Context, d *Delivery) error

// Deliver calls f.
func (f SinkFunc) Deliver(ctx context.Context, d *Delivery) error { return f(ctx, d) }

// TopicLister is a Sink that takes certain topics only, such as a Mux.
type TopicLister interface {
	Sink
	// Topics returns the patterns it takes.
	Topics() []string
}

// Route sends topics to a sink. All routes of one Name share one Sink and are one destination, and the first
// route with a pattern that covers a topic wins.
type Route struct {
	// Name of the destination: 1 to 64 of the characters a-z 0-9 _ -.
	Name string
	// Topics are patterns; at least one. None for a TopicLister means all that it takes.
	Topics []string
	// Sink is given by the first route of a Name. Later ones leave it nil or give the same.
	Sink Sink
	// Slots is how many messages the relay holds for this destination at a time. Default 50, for a BatchSink
	// 2,000.
	Slots int
	// BatchSize is how many messages one claim, and one call of a BatchSink, takes at most. Default 500, never
	// more than the free slots.
	BatchSize int
	// BatchBytes is how many payload bytes the relay holds for this destination at a time. Default 64 MiB;
	// a larger message is delivered alone.
	BatchBytes int64
	// TTL is how long after its publishing a message lives that has neither TTL nor ExpiresAt of its own. One whose life
	// is over is not sent. Zero: for ever.
	TTL time.Duration
	// BrokerTTL is the BrokerTTL of messages that have none of their own: how long a broker keeps them from their
	// delivery on. A sink whose broker knows no such time ignores it. Zero: for ever.
	BrokerTTL time.Duration
}

// To routes everything that sink takes to it: all topics, destination "default", or the topics of a
// TopicLister such as a Mux, destination "handlers".
func To(sink Sink) []Route {
	if lister, ok := sink.(TopicLister); ok {
		return []Route{{Name: "handlers", Topics: lister.Topics(), Sink: sink}}
	}
	return []Route{{Name: "default", Topics: []string{">"}, Sink: sink}}
}
