package history

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// ViolationKind names a promise that was broken.
type ViolationKind string

const (
	// Lost: committed, and neither accepted nor ended in another way by the end of the history; or redriven,
	// and not ended since.
	Lost ViolationKind = "lost"
	// Phantom: delivered, but never published or rolled back.
	Phantom ViolationKind = "phantom"
	// Early: delivered before its publisher began to commit.
	Early ViolationKind = "early"
	// Changed: delivered with another topic, key or payload than published, or with different seqs.
	Changed ViolationKind = "changed"
	// Concurrent: in one destination, two deliveries of one message, or of two messages of one key, were in
	// flight at the same time, and when the second began, both relays' leases had held since their claims.
	Concurrent ViolationKind = "concurrent"
	// Overtaken: a delivery began while an older message of its key in the destination was neither accepted
	// nor ended (a parked one: redriven and ended, or discarded), although that one was visible to the claim: it had been committed (or redriven, or, if
	// scheduled, first delivered) before the claim of the delivered one was requested, or before its
	// transaction began to commit. Older is a lower seq, also among transactions that raced for the key.
	Overtaken ViolationKind = "overtaken"
	// Duplicate: delivered again although it was settled, or although it was accepted by a relay that
	// neither died nor lost its lease in between.
	Duplicate ViolationKind = "duplicate"
	// LateSettle: a settlement was accepted although another claim had delivered the message since.
	LateSettle ViolationKind = "late_settle"
	// Unaccepted: settled as delivered, but the relay that settled had not got it accepted.
	Unaccepted ViolationKind = "unaccepted"
	// Surrendered: a message with a key whose order is Block was settled as dead while it lived.
	Surrendered ViolationKind = "surrendered"
	// Revived: discarded by an operator, and delivered by a claim that was requested after that, or in flight all the time
	// in a relay whose lease held.
	Revived ViolationKind = "revived"
	// Spent: delivered as a higher attempt than the settlements before it account for: a death or a takeover has spent
	// one.
	Spent ViolationKind = "spent"
	// WrongFence: a settlement was refused although the relay held its lease all the time.
	WrongFence ViolationKind = "wrong_fence"
)

// Violation is a broken promise and its proof.
type Violation struct {
	Kind   ViolationKind
	Text   string  // a sentence
	Events []Event // those that prove it, in the order of the sentence
}

func (v Violation) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s", v.Kind, v.Text)
	for _, e := range v.Events {
		line, _ := json.Marshal(e) // cannot fail: strings, numbers, a bool
		fmt.Fprintf(&b, "\n\t%s", line)
	}
	return b.String()
}

// Counts say how much a history proves: tests assert that what they meant to happen did happen.
type Counts struct {
	Committed, RolledBack int
	Unknown               int // published, and the publisher did not learn or log the outcome
	Deliveries            int
	Accepted, Failed      int // deliveries
	Duplicates            int // deliveries begun after the message had been accepted, redriven ones aside
	OutsideLease          int // deliveries begun by a relay whose lease may not have held since the claim
	Fenced                int // settlements
	LeasesLost, Deaths    int
}

// Report is what Check found.
type Report struct {
	Counts     Counts
	Violations []Violation
}

const violationsShown = 20

// Err is nil if there is no violation; otherwise it shows the first ones with their proof.
func (r Report) Err() error {
	if len(r.Violations) == 0 {
		return nil
	}
	var b strings.Builder
	fmt.Fprintf(&b, "history: %d violations", len(r.Violations))
	for i, v := range r.Violations {
		if i == violationsShown {
			fmt.Fprintf(&b, "\n… and %d more", len(r.Violations)-i)
			break
		}
		fmt.Fprintf(&b, "\n%s", v)
	}
	return errors.New(b.String())
}
