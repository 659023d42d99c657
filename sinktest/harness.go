package sinktest

import (
	"context"

	"github.com/outboxrelay/outbox"
)

// Harness shows a sink and its destination to the suite. Each case gets one of its own, with an empty destination
// that takes every topic.
type Harness interface {
	// Sink is what is tested. If it is an outbox.BatchSink its batches are, and Deliver too.
	Sink() outbox.Sink
	// Stored returns everything that the destination holds, in the order in which it was stored.
	Stored(ctx context.Context) ([]Stored, error)
	// Features says what the destination can do.
	Features() Features
}

// Stored is a message as a consumer gets it.
type Stored struct {
	Payload []byte
	// Headers are all that a consumer sees, the Outbox- ones included.
	Headers map[string]string
}

// Stopper is a Harness whose destination can be taken away and brought back, with what it holds.
type Stopper interface {
	Stop(ctx context.Context) error
	Start(ctx context.Context) error
}

// Freezer is a Harness whose destination can be made silent: connections stay open and nothing is carried or answered,
// as when its machine hangs or a firewall forgets a connection. Thaw carries what was held back.
//
// The sink's own time-outs should be a fraction of a second there: the suite waits for them.
type Freezer interface {
	Freeze(ctx context.Context) error
	Thaw(ctx context.Context) error
}

// Features are promises that not every destination makes. What a destination cannot do is not tested.
type Features struct {
	// Deduplicates: a message that is sent again is stored once.
	Deduplicates bool
	// TooLarge is the size of a payload that the destination refuses, in bytes; zero: none is refused.
	TooLarge int
	// LineHeaders: the protocol cannot carry header values with line breaks. Otherwise they must arrive unchanged.
	LineHeaders bool
}

// Case is one test of the suite.
type Case struct {
	// Name says what must hold.
	Name string
	// Run fails t if it does not.
	Run func(t TB, h Harness)
}
