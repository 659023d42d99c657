package record

import (
	"context"

	"github.com/outboxrelay/outbox"
	"github.com/outboxrelay/outbox/internal/history"
)

// Sink is a Sink whose deliveries are recorded.
type Sink struct {
	sink        outbox.Sink
	destination string
	log         *history.Log
}

var _ outbox.Sink = (*Sink)(nil)

// NewSink records what the sink of a destination accepts. It delivers one by one, also to a BatchSink.
func NewSink(sink outbox.Sink, destination string, log *history.Log) *Sink {
	return &Sink{sink: sink, destination: destination, log: log}
}

// Deliver records Begun and, also when the sink panics, Accepted or Failed.
func (s *Sink) Deliver(ctx context.Context, d *outbox.Delivery) (err error) {
	e := history.Event{
		Kind: history.Begun, Relay: d.Claim.Relay.String(), Message: d.ID.String(), Seq: d.Seq, Destination: s.destination,
		Claim: d.Claim.ID, Topic: d.Topic, Key: d.Key, Payload: history.Hash(d.Payload), Attempt: int64(d.Attempt),
	}
	must(s.log.Append(e))
	e.Kind, e.Topic, e.Key, e.Payload, e.Attempt = history.Failed, "", "", "", 0
	defer func() { must(s.log.Append(e)) }()
	err = s.sink.Deliver(ctx, d)
	if accepted(err) {
		e.Kind = history.Accepted
	}
	if err != nil {
		e.Detail = err.Error()
	}
	return err
}

// accepted reports whether the message is over for the sink: dropped is accepted.
func accepted(err error) bool {
	_, dropped := outbox.DropReason(err)
	return err == nil || dropped
}
