package outbox

import (
	"maps"
	"slices"
	"strings"
	"sync"
)

// Fault is why a destination takes no messages, as a relay sees it. A nil Fault says that it takes them, as far as is
// known.
type Fault struct {
	// Misconfigured: waiting does not help, somebody has to change something, and Reason says what.
	Misconfigured bool
	// Reason is the error's text, at most 500 bytes, with the handler's topic before it if only that one fails.
	Reason string
}

// States of a destination.
const (
	StateAvailable     = "available"
	StateUnavailable   = "unavailable"
	StateMisconfigured = "misconfigured"
)

// State is the destination's: StateAvailable without a fault, else StateUnavailable or StateMisconfigured.
func (f *Fault) State() string {
	switch {
	case f == nil:
		return StateAvailable
	case f.Misconfigured:
		return StateMisconfigured
	}
	return StateUnavailable
}

// maxReason is what heartbeats carry of a reason, in bytes.
const maxReason = 500

// faultOf is what an error says of a destination, or of the part of it that is named.
func faultOf(scope string, text string, misconfigured bool) Fault {
	if scope != "" {
		text = "handler of " + scope + ": " + text
	}
	if len(text) > maxReason {
		text = text[:maxReason-len("…")] + "…"
	}
	return Fault{misconfigured, strings.ToValidUTF8(strings.ReplaceAll(text, "\x00", ""), "")}
}

// faults are those of a lane, by scope, from the closing of its breaker until it works again or a check finds nothing.
type faults struct {
	mu     sync.Mutex
	known  map[string]Fault
	logged Fault // the last one that has a line in the log
}

// set remembers a fault and reports whether the state is another one now.
func (f *faults) set(scope string, fault Fault) (changed bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	before, known := f.known[scope]
	if f.known == nil {
		f.known = map[string]Fault{}
	}
	f.known[scope] = fault
	return !known || before.Misconfigured != fault.Misconfigured
}

// log remembers that a fault is logged, and reports whether it differs from the last one that was.
func (f *faults) log(fault Fault) (changed bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	changed = f.logged != fault
	f.logged = fault
	return changed
}

// clear forgets a fault and reports whether there was one.
func (f *faults) clear(scope string) (changed bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	_, changed = f.known[scope]
	delete(f.known, scope)
	return changed
}

// worst is the one to tell of: a misconfiguration first, nil if there is none.
func (f *faults) worst() *Fault {
	f.mu.Lock()
	defer f.mu.Unlock()
	var worst *Fault
	for _, scope := range slices.Sorted(maps.Keys(f.known)) {
		if fault := f.known[scope]; worst == nil || fault.Misconfigured && !worst.Misconfigured {
			worst = &fault
		}
	}
	return worst
}
