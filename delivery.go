package outbox

import (
	"strings"
	"time"
)

// Delivery is a message on its way to a sink or handler. It is read-only, payload and headers included:
// the relay may deliver the same bytes again.
type Delivery struct {
	Message
	// Seq is the message's place in publish order.
	Seq int64
	// Attempt counts from 1. Deliveries that the destination's absence or a relay's death ended do not count.
	Attempt int
	// Generation is 0, and one more after every redrive or replay.
	Generation int
	// PublishedAt is the database's time of publishing.
	PublishedAt time.Time
	// Deadline is when the message expires, on this machine's clock; zero if it never does. Stores derive it
	// from the life that is left by the database's clock, so a wrong local clock does no harm.
	Deadline time.Time
	// Unreadable, if a store sets it, says why the stored message cannot be delivered: it is dead at once, and no sink
	// or handler sees it.
	Unreadable error
	// Claim is what holds the message while it is delivered.
	Claim ClaimRef

	own *ownSettle // nil unless a relay holds the message
}

// ClaimRef names a claim and the relay that holds it; together they are the fence of every settlement.
type ClaimRef struct {
	ID    int64
	Relay ID
	// Token names the request that made the claim. A store whose crash may undo a claim, and then gives its ID
	// to another one, tells the two apart by it.
	Token Token
}

// SetHeaders sets the headers as they are stored, and ContentType from them. It is for implementations of
// a Store.
func (d *Delivery) SetHeaders(headers map[string]string) {
	d.Headers = headers
	d.ContentType = headers[contentTypeHeader]
	if d.ContentType != "" {
		return
	}
	for name, value := range headers {
		if strings.EqualFold(name, contentTypeHeader) {
			d.ContentType = value
		}
	}
}

// expired reports whether the message's life is over.
func (d *Delivery) expired(now time.Time) bool {
	return !d.Deadline.IsZero() && !now.Before(d.Deadline)
}

func (d *Delivery) deliverable(now time.Time) bool { return d.Unreadable == nil && !d.expired(now) }
