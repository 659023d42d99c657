package outboxtest

import (
	"testing"
	"time"

	"github.com/outboxrelay/outbox"
)

// Deliver hands one message to a sink or mux as a relay would: checked and completed as by Publish, first
// attempt. The context is the test's, without a time limit. It returns the sink's error as it is, nil when the message
// was handled; a Mux without a handler for the topic is an error. A message that Publish would refuse ends the test.
func Deliver(t testing.TB, sink outbox.Sink, m outbox.Message) error {
	t.Helper()
	now := time.Now()
	prepared, err := outbox.Prepare(t.Context(), m, outbox.MaxPayloadCeiling)
	if err != nil {
		t.Fatalf("the message could not be published: %v", err)
	}
	r := &row{Message: prepared, seq: 1, publishedAt: now, expiresAt: prepared.ExpiresAt}
	if prepared.TTL > 0 {
		r.expiresAt = now.Add(prepared.TTL)
	}
	d := r.delivery(now, 0, outbox.ClaimRef{})
	return sink.Deliver(outbox.CausedBy(t.Context(), d), d)
}
