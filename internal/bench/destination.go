package bench

import (
	"context"
	"errors"

	"github.com/outboxrelay/outbox"
)

// Topic is that of all messages of a backlog.
const Topic = "orders.created"

// Destination is where messages go. Each run opens one of its own.
type Destination struct {
	Name string
	Open func(ctx context.Context) (Target, error)
	End  func() error // after the last run; nil: nothing is left by then
}

// Target is an open destination.
type Target interface {
	// Sink is what a relay delivers to.
	Sink() outbox.Sink
	// Publish is one call of the bare client, acknowledged.
	Publish(ctx context.Context, d *outbox.Delivery) error
	// PublishAll has all messages on their way at once and returns when all are acknowledged.
	PublishAll(ctx context.Context, ds []*outbox.Delivery) error
	// Arrived counts the messages that are there; Unknown if nobody can tell.
	Arrived(ctx context.Context) (int64, error)
	Close() error
}

// Nowhere takes everything at once.
func Nowhere() Destination {
	return Destination{Name: "no-op", Open: func(context.Context) (Target, error) { return nowhere{}, nil }}
}

type nowhere struct{}

func (nowhere) Sink() outbox.Sink {
	return outbox.SinkFunc(func(context.Context, *outbox.Delivery) error { return nil })
}
func (nowhere) Publish(context.Context, *outbox.Delivery) error      { return nil }
func (nowhere) PublishAll(context.Context, []*outbox.Delivery) error { return nil }
func (nowhere) Arrived(context.Context) (int64, error)               { return Unknown, nil }
func (nowhere) Close() error                                         { return nil }

// Accepted wraps a sink, so that each message that it has accepted is told of.
func Accepted(sink outbox.Sink, tell func(d *outbox.Delivery)) outbox.Sink {
	one := &accepted{sink, tell}
	if batch, ok := sink.(outbox.BatchSink); ok {
		return &acceptedBatch{one, batch}
	}
	return one
}

type accepted struct {
	outbox.Sink
	tell func(d *outbox.Delivery)
}

func (a *accepted) Deliver(ctx context.Context, d *outbox.Delivery) error {
	err := a.Sink.Deliver(ctx, d)
	if err == nil {
		a.tell(d)
	}
	return err
}

type acceptedBatch struct {
	*accepted
	batch outbox.BatchSink
}

func (a *acceptedBatch) DeliverBatch(ctx context.Context, ds []*outbox.Delivery, report func(i int, err error)) error {
	return a.batch.DeliverBatch(ctx, ds, func(i int, err error) {
		if err == nil {
			a.tell(ds[i])
		}
		report(i, err)
	})
}

// With gives a run a target of its own.
func (to Destination) With(run func(ctx context.Context, b *Bed, target Target) (Sample, error)) func(context.Context, *Bed) (Sample, error) {
	return func(ctx context.Context, b *Bed) (_ Sample, err error) {
		target, err := to.Open(ctx)
		if err != nil {
			return Sample{}, err
		}
		defer func() { err = errors.Join(err, target.Close()) }()
		return run(ctx, b, target)
	}
}
