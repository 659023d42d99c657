package outbox

import "time"

// Keys is what holds keys.
type Keys struct {
	Holds  []KeyHold // the longest first
	More   bool      // there are more
	Pauses []Pause   // all of them; each holds the keys of its messages
}

// HoldState is how a message holds its key.
type HoldState string

// How a message holds its key.
const (
	HoldRetrying HoldState = "retrying"  // it failed and waits for its next attempt
	HoldDue      HoldState = "due"       // it waited and is to be claimed now
	HoldParked   HoldState = "parked"    // it is dead; redrive or discard it
	HoldInFlight HoldState = "in flight" // a relay has held it for more than five seconds
	HoldLost     HoldState = "lost"      // given back, or its relay is gone; to be claimed now
	HoldPaused   HoldState = "paused"    // its topic or destination is paused
)

// KeyHold is a key and the message that holds it: the first one of the key that has not ended.
type KeyHold struct {
	Key         string
	State       HoldState
	Topic       string
	ID          ID
	Seq         int64
	Attempts    int
	Lapses      int           // how many relays have died with it; from SuspectLapses on it is a suspect, delivered alone
	Class, Text string        // of the last failure
	NextTry     time.Duration // of HoldRetrying
	Age         time.Duration // since its first failure, its death, its claim or its publishing
	Destination string        // of HoldInFlight and HoldLost
	Relay       string        // host/pid, of HoldInFlight
	// Behind are the ready messages of the key behind it, counted up to a bound, 1,000 for a hundred keys.
	Behind Depth
}

// Release is the command that releases the key, or shows why nobody has to.
func (h *KeyHold) Release() string {
	id := h.ID.String()
	switch h.State {
	case HoldRetrying:
		return "outbox retry --id " + id
	case HoldParked:
		return "outbox redrive --id " + id
	}
	return "outbox why " + id
}
