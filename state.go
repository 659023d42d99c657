package outbox

import (
	"fmt"
	"slices"
)

// State is where a message is, or how it has ended.
type State string

const (
	StateReady   State = "ready"   // to be delivered, those in delivery included
	StateWaiting State = "waiting" // scheduled, backing off or replayed, those in delivery included
	StateDead    State = "dead"

	// Those that have ended are there if the store keeps them.
	StateDelivered State = "delivered"
	StateDropped   State = "dropped"
	StateExpired   State = "expired"
	StateDiscarded State = "discarded"
)

var (
	undelivered = []State{StateReady, StateWaiting}
	ended       = []State{StateDelivered, StateDropped, StateExpired, StateDiscarded}
)

// States returns all states, in the order of a message's life.
func States() []State { return slices.Concat(undelivered, []State{StateDead}, ended) }

// HasEnded reports whether nothing will happen to the message any more unless it is replayed.
func (s State) HasEnded() bool { return slices.Contains(ended, s) }

// checkStates refuses states that are not among those allowed.
func checkStates(given, allowed []State) error {
	if given != nil && len(given) == 0 {
		return fieldError("States", "[]", "must be nil, or have an element")
	}
	for _, s := range given {
		if !slices.Contains(allowed, s) {
			return fieldError("States", string(s), fmt.Sprintf("must be some of %v", allowed))
		}
	}
	return nil
}
