package outbox

import (
	"fmt"
	"time"
)

// ListQuery asks for messages one by one.
type ListQuery struct {
	// Filter says which messages; no field is needed. Without States those are meant that have not ended. Limit is
	// the length of a page, 0: 100, at most 1,000. IDs are not for lists; see Catalog.Show.
	Filter
	// After is the Next of the page before.
	After string
	// Payload makes the list have payloads and headers.
	Payload bool
}

// Check reports with a *FieldError what is wrong with the query.
func (q *ListQuery) Check() error {
	const most = 1000
	switch {
	case q.IDs != nil:
		return fieldError("IDs", fmt.Sprint(len(q.IDs)), "are not for lists; show looks ids up")
	case q.All:
		return fieldError("All", "true", "is not needed for a list")
	case q.Limit < 0 || q.Limit > most:
		return fieldError("Limit", fmt.Sprint(q.Limit), fmt.Sprintf("must be 1 to %d, or 0 for 100", most))
	}
	if err := checkStates(q.States, States()); err != nil {
		return err
	}
	f := q.Filter
	f.All = f.isEmpty()
	return f.check()
}

// ListPage is a page of a list. Messages are listed state by state, in publish order.
type ListPage struct {
	Messages []MessageInfo
	// Next goes on after this page. Empty: this is the last one. A page may be short, even empty, and yet not the last one: it
	// ends where it has looked at 100,000 messages.
	Next string
}

// MessageInfo is a message as it is stored.
type MessageInfo struct {
	Message     Message // Payload and headers only when asked for
	Seq         int64
	State       State
	InFlight    bool // a relay holds it
	Holds       bool // of a waiting or dead one: younger messages of its key wait
	Attempts    int
	Generation  int
	Destination string // of one that was replayed: its only one, until it is delivered by route; of one that has ended: where it went
	PublishedAt time.Time
	AvailableAt time.Time // of a waiting one
	EndedAt     time.Time // or died
	Class, Text string    // of the last failure; Text also of a dropped or discarded one: why
	Actor       string    // who discarded it
	NoPayload   bool      // it was kept without
}

// DeadLetters are the dead messages by topic and kind of error.
type DeadLetters struct {
	// Groups are the most frequent first.
	Groups []DeadGroup
	// Messages are all that were looked at: the 100,000 that were published last.
	Messages Depth
}

// DeadGroup are dead messages of a topic whose errors are alike.
type DeadGroup struct {
	Topic, Class string
	// Text is the error with what differs from message to message replaced: numbers by N, UUIDs by UUID, other ids by HEX.
	Text        string
	Messages    int64
	Holding     int64 // of those: hold their key
	First, Last time.Time
	Example     ID // the youngest
}

// Partition is a part of what is kept of messages that have ended.
type Partition struct {
	Name string
	// From and To are when its messages have ended; To is exclusive. Zero: without end, as both are of the default partition, which
	// takes what has no other.
	From, To time.Time
	// Messages is the database's own running count. At least 0: it has none, although there may be messages.
	Messages Depth
	Bytes    int64 // indexes included
}
