package history

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
)

// Kind says what an event tells.
type Kind string

// Processes and their surroundings. Started is written by the process, the others by the harness, with the
// process's name in Event.Process.
const (
	Started   Kind = "process_started"
	Killed    Kind = "process_killed"    // about to be sent SIGKILL
	Suspended Kind = "process_suspended" // about to be sent SIGSTOP
	Continued Kind = "process_continued" // was sent SIGCONT
	Died      Kind = "process_died"      // gone, killed or failed
	Exited    Kind = "process_exited"    // gone as it should
	// Disturbed ends all leases and claims of the moment: the database crashed, failed over, or its clock was
	// set. Detail says which.
	Disturbed Kind = "disturbed"
)

// Relays. All have Event.Relay.
const (
	RelayStarted Kind = "relay_started"
	RelayStopped Kind = "relay_stopped" // Run has returned
	Leased       Kind = "leased"        // the lease was registered or extended; Until
	LeaseLost    Kind = "lease_lost"    // the relay was told, or noticed, that its lease is over
	Claimed      Kind = "claimed"       // Claim, Since
)

// Publishers. All have Event.Message.
const (
	Publishing Kind = "publishing" // published, about to commit; Topic, Key, Payload, Deferred
	Committed  Kind = "committed"
	RolledBack Kind = "rolled_back"
)

// Deliveries. All have Message, Destination, Relay, Seq, Claim; Begun has Topic, Key,
// Payload and Attempt as received.
const (
	Begun    Kind = "delivery_begun"
	Accepted Kind = "delivery_accepted"
	Failed   Kind = "delivery_failed" // not accepted, for whatever reason
)

// Settlements and operators. All have Message; the first three Destination, Relay, Claim and Outcome.
const (
	Settling  Kind = "settling"
	Settled   Kind = "settled" // Since, the first time if it was sent again; also if that one turns out to have settled it already
	Fenced    Kind = "fenced"  // refused
	Discarded Kind = "discarded"
	Redriven  Kind = "redriven"
)

// Outcomes of settlements, as the relay names them.
const (
	OutcomeDelivered = "delivered"
	OutcomeDropped   = "dropped"
	OutcomeExpired   = "expired"
	OutcomeRetried   = "retried"
	OutcomeDied      = "died"
	OutcomeUnlisted  = "unlisted"
	OutcomeGivenBack = "given_back"
)

// Event is one thing that a process did or that was done to it.
type Event struct {
	At          int64  `json:"at"` // Now, set by Log.Append if zero
	Kind        Kind   `json:"kind"`
	Process     string `json:"process"`           // set by Log.Append if empty
	Relay       string `json:"relay,omitempty"`   // the id under which the relay is registered
	Message     string `json:"message,omitempty"` // the message's id
	Seq         int64  `json:"seq,omitempty"`
	Topic       string `json:"topic,omitempty"`
	Key         string `json:"key,omitempty"`
	Destination string `json:"destination,omitempty"`
	Payload     string `json:"payload,omitempty"` // Hash of it
	Claim       int64  `json:"claim,omitempty"`
	Attempt     int64  `json:"attempt,omitempty"` // of a delivery, from 1
	Outcome     string `json:"outcome,omitempty"`
	Since       int64  `json:"since,omitempty"`    // before the request whose answer this is; At if zero
	Until       int64  `json:"until,omitempty"`    // end of the lease; of Publishing: before that the message does not expire
	Deferred    bool   `json:"deferred,omitempty"` // scheduled: holds its key only once it was claimed
	Repeated    bool   `json:"repeated,omitempty"` // of Settled: the message had ended when it was asked again, by the first request or by others
	Detail      string `json:"detail,omitempty"`   // for the reader
}

// Hash shortens a payload to what proves that it arrived unchanged.
func Hash(payload []byte) string {
	sum := sha256.Sum256(payload)
	return hex.EncodeToString(sum[:12])
}

// since is when the request was made that the event answers.
func (e *Event) since() int64 {
	if e.Since != 0 {
		return e.Since
	}
	return e.At
}

// needs says which fields an event of a kind must have: m message, d destination, r relay, o outcome, u until.
var needs = map[Kind]string{
	Started: "", Killed: "", Suspended: "", Continued: "", Died: "", Exited: "", Disturbed: "",
	RelayStarted: "r", RelayStopped: "r", Leased: "ru", LeaseLost: "r", Claimed: "r",
	Publishing: "m", Committed: "m", RolledBack: "m",
	Begun: "mdr", Accepted: "mdr", Failed: "mdr",
	Settling: "mdro", Settled: "mdro", Fenced: "mdro", Discarded: "m", Redriven: "m",
}

// check refuses an event that the checker could not make sense of.
func (e *Event) check() error {
	fields, known := needs[e.Kind]
	if !known {
		return fmt.Errorf("event kind %q is not known", e.Kind)
	}
	if e.At <= 0 || e.Process == "" {
		return fmt.Errorf("event %s: at (%d) must be above 0 and process (%q) given", e.Kind, e.At, e.Process)
	}
	for _, f := range fields {
		if !e.has(f) {
			return fmt.Errorf("event %s lacks one of message, destination, relay, outcome, until (needed: %s, by their first letters)", e.Kind, fields)
		}
	}
	return nil
}

func (e *Event) has(field rune) bool {
	switch field {
	case 'm':
		return e.Message != ""
	case 'd':
		return e.Destination != ""
	case 'r':
		return e.Relay != ""
	case 'u':
		return e.Until > 0
	}
	return e.Outcome != ""
}
