package outbox

import (
	"fmt"
	"time"
)

// Operation is a change that an operator made or is making.
type Operation struct {
	ID   int64
	Verb string // "redrive", "pause"
	// State is "done"; or "running": under way, or stopped before its end; or "waiting": a discard waits for live relays.
	State string
	// Filter says in words which messages are meant, by the names of the filter.
	Filter                            map[string]string
	Actor, Reason                     string
	Rate                              int // messages a second; 0: no limit
	Matched, Changed, Held, NoPayload int64
	StartedAt, FinishedAt             time.Time // FinishedAt is zero while it is running
}

// Release is the command that goes on with an operation which is not done; else "".
func (o *Operation) Release() string {
	if o.State == "done" {
		return ""
	}
	command := fmt.Sprintf("outbox %s --continue %d", o.Verb, o.ID)
	if o.State == "waiting" {
		command += " --wait 30s"
	}
	return command
}
