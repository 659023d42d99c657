package outbox

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/outboxrelay/outbox/internal/shellword"
)

// Operator shows what holds messages up, and releases them. Every change is recorded as an operation: who, why, which
// messages, with what counts. All methods may be called concurrently, without a relay and beside running ones; no
// change is ever seen half-done by a relay.
type Operator interface {
	// Keys lists what holds keys, the longest held first, at most limit (0: 100).
	Keys(ctx context.Context, limit int) (Keys, error)
	// Why explains why a message, or the first message of a key, is not delivered.
	Why(ctx context.Context, q WhyQuery) (Why, error)
	// Redrive delivers dead messages again: due now, attempts from 0, Generation one higher. Their keys are held from
	// this moment on, so no younger message of a key passes. One that is bound to a destination where no live relay would
	// take it is left alone and counted as held, unless Change.ByRoute.
	Redrive(ctx context.Context, c Change) (ChangeReport, error)
	// Retry makes messages due that wait for another attempt; their attempts stay. A scheduled message keeps its time
	// unless it is named by its id. With Change.ByRoute it is about all that wait for Filter.BoundTo, due or not.
	Retry(ctx context.Context, c Change) (ChangeReport, error)
	// Discard removes ready, waiting and dead messages; Change.Reason must say why. A message that a live relay holds is
	// left alone and counted as held, unless Change.Wait.
	Discard(ctx context.Context, c Change) (ChangeReport, error)
	// Pause keeps all relays from claiming what the pause covers; its messages hold their keys. What is in delivery
	// goes on.
	Pause(ctx context.Context, p Pause) (ChangeReport, error)
	// Resume ends exactly this pause. Changed is 0 when there is none.
	Resume(ctx context.Context, p Pause) (ChangeReport, error)
}

// Filter says which messages are meant: those that all given fields match. Without any field it matches nothing and
// is refused, unless All.
type Filter struct {
	IDs   []ID
	Topic string // or a pattern
	Key   string
	Class string // of the last error
	Text  string // a part of the last error
	// BoundTo is the destination that a replay has bound messages to: MessageInfo.Destination. Those that go by route have none.
	// In a list it is also the destination to which those went that have ended. Not for Purge and Replay.
	BoundTo string
	// States are where messages are looked for. Nil: wherever the change may find them.
	States []State
	// OlderThan and NewerThan count from a dead message's death, from the end of one that has ended, and from the publishing of any other.
	OlderThan, NewerThan time.Duration
	All                  bool
	// Limit is how many messages are changed at most. 0: no limit.
	Limit int64
}

// isEmpty reports whether no field selects anything.
func (f *Filter) isEmpty() bool {
	return f.IDs == nil && f.Topic == "" && f.Key == "" && f.Class == "" && f.Text == "" && f.BoundTo == "" && f.OlderThan == 0 && f.NewerThan == 0 &&
		f.States == nil
}

// Change is a change of messages that match a filter, made in batches, each a transaction of its own. When it ends
// early, by an error or a done context, what was changed stays changed and Continue goes on with the rest. The filter
// means the messages that were there when the change began.
type Change struct {
	Filter
	Actor  string // default: the database's user
	Reason string
	DryRun bool // only count, up to 100,000
	Rate   int  // messages a second, at most 1,000,000; 0: no limit
	// Wait is for how long Discard waits for relays to let go of what they hold: a message is discarded as soon as its
	// delivery has failed, before anybody can try it again. One that is delivered meanwhile is delivered.
	Wait time.Duration
	// Holding makes Purge take dead messages that hold their key, too; what waits behind them goes on.
	Holding bool
	// Destination is where Replay delivers to. What is bound to a destination already, Filter.BoundTo means.
	Destination string
	// ByRoute makes Retry and Redrive end the binding to Filter.BoundTo: the routes decide again where the messages go. With a key
	// they hold it there from this moment on, and they are due now.
	ByRoute bool
	// Continue is an operation that has not come to its end; its filter, actor, reason and rate are used.
	Continue int64
	// Progress is called after each batch.
	Progress func(ChangeReport)
}

// ChangeReport is what became of a change, its earlier parts included.
type ChangeReport struct {
	Operation int64 // its id; 0 for a dry run
	Matched   int64
	Changed   int64
	// Held ones were left alone: live relays hold them (Discard, and Retry with Change.ByRoute), they hold their key (Purge), they
	// are under way already (Replay), they are bound to where no live relay would take them (Redrive).
	Held int64
	// NoPayload ones were kept without payload, so Replay left them alone.
	NoPayload int64
	// More: it has not come to its end. Go on by Continue.
	More bool
	// Waiting: a discard with Change.Wait waits for relays to let go of what they hold.
	Waiting bool
}

// changeStates are the states in which each change finds messages.
var changeStates = map[string][]State{
	"redrive": {StateDead},
	"retry":   {StateWaiting},
	"discard": {StateReady, StateWaiting, StateDead},
	"purge":   append([]State{StateDead}, ended...),
	"replay":  ended,
}

// Check reports with a *FieldError what is wrong with the change, for Redrive ("redrive"), Retry, Discard, Purge or Replay.
// Operators call it before anything else.
func (c *Change) Check(verb string) error {
	if err := checkTexts(map[string]string{"Actor": c.Actor, "Reason": c.Reason}); err != nil {
		return err
	}
	switch {
	case c.Destination != "" && (verb != "replay" || c.Continue > 0):
		return fieldError("Destination", c.Destination, "is for a replay that begins; what is bound to a destination, BoundTo means")
	case c.BoundTo != "" && (verb == "purge" || verb == "replay"):
		return fieldError("BoundTo", c.BoundTo, "is for a redrive, a retry or a discard")
	case c.ByRoute && (verb != "redrive" && verb != "retry" || c.Continue > 0):
		return fieldError("ByRoute", "true", "is for a redrive or a retry that begins")
	case c.ByRoute && c.BoundTo == "":
		return fieldError("ByRoute", "true", "needs the destination that the messages are bound to")
	case c.Holding && (verb != "purge" || c.Continue > 0):
		return fieldError("Holding", "true", "is for a purge that begins")
	case c.Continue < 0:
		return fieldError("Continue", fmt.Sprint(c.Continue), "must be the id of an operation")
	case c.Rate < 0 || c.Rate > maxRate:
		return fieldError("Rate", fmt.Sprint(c.Rate), fmt.Sprintf("must be 1 to %d messages a second, or 0 for no limit", maxRate))
	case c.Wait < 0:
		return fieldError("Wait", c.Wait.String(), "must not be negative")
	case c.Continue > 0 && (!c.isEmpty() || c.All || c.Limit != 0 || c.DryRun):
		return fieldError("Continue", fmt.Sprint(c.Continue), "goes on with the filter that the operation has; give none")
	case c.Continue > 0:
		return nil
	case verb == "discard" && c.Reason == "" && !c.DryRun:
		return fieldError("Reason", "", "must say why the messages are discarded")
	case verb == "replay":
		if err := checkName("Destination", c.Destination); err != nil {
			return err
		}
		if c.Class != "" {
			return fieldError("Class", c.Class, "is of failures; what has ended has none")
		}
	}
	if err := checkStates(c.States, changeStates[verb]); err != nil {
		return err
	}
	return c.Filter.check()
}

func (f *Filter) check() error {
	switch {
	case f.isEmpty() && !f.All:
		return fieldError("Filter", "", "must have a field, or All")
	case !f.isEmpty() && f.All:
		return fieldError("All", "true", "excludes the other fields")
	case f.IDs != nil && len(f.IDs) == 0, len(f.IDs) > maxFilterIDs:
		return fieldError("IDs", fmt.Sprint(len(f.IDs)), fmt.Sprintf("must be 1 to %d ids", maxFilterIDs))
	case f.OlderThan < 0:
		return fieldError("OlderThan", f.OlderThan.String(), "must not be negative")
	case f.NewerThan < 0:
		return fieldError("NewerThan", f.NewerThan.String(), "must not be negative")
	case f.Limit < 0:
		return fieldError("Limit", fmt.Sprint(f.Limit), "must be 1 or more, or 0 for no limit")
	case f.BoundTo != "" && f.States != nil && !slices.ContainsFunc(f.States, func(s State) bool { return s != StateReady }):
		return fieldError("BoundTo", f.BoundTo, "excludes ready messages, which are bound to no destination")
	}
	if f.BoundTo != "" {
		if err := checkName("BoundTo", f.BoundTo); err != nil {
			return err
		}
	}
	if err := checkTexts(map[string]string{"Key": f.Key, "Class": f.Class, "Text": f.Text}); err != nil {
		return err
	}
	if f.Topic != "" {
		return CheckPattern(f.Topic)
	}
	return nil
}

// checkTexts refuses what a database cannot hold.
func checkTexts(fields map[string]string) error {
	for field, text := range fields {
		if strings.ContainsRune(text, 0) || !utf8.ValidString(text) {
			return fieldError(field, text, "must be UTF-8 without NUL")
		}
	}
	return nil
}

const (
	// maxFilterIDs bounds what one statement looks up one by one.
	maxFilterIDs = 1000
	maxRate      = 1_000_000
)

// Pause is a topic pattern or a destination that no relay claims from.
type Pause struct {
	Topic, Destination string // one of them
	Actor              string // default: the database's user
	Reason             string
	At                 time.Time // when it began; not for Pause and Resume
}

// Check reports with a *FieldError what is wrong with the pause.
func (p *Pause) Check() error {
	switch {
	case (p.Topic == "") == (p.Destination == ""):
		return fieldError("Pause", p.Topic+p.Destination, "must name a topic or a destination, one of them")
	case p.Topic != "":
		if err := CheckPattern(p.Topic); err != nil {
			return err
		}
	default:
		if err := checkName("Destination", p.Destination); err != nil {
			return err
		}
	}
	return checkTexts(map[string]string{"Actor": p.Actor, "Reason": p.Reason})
}

// covers reports whether messages of a topic are paused, when they go to these destinations.
func (p *Pause) covers(topic string, destinations []string) bool {
	if p.Topic != "" {
		return MatchTopic(p.Topic, topic)
	}
	for _, d := range destinations {
		if d == p.Destination {
			return true
		}
	}
	return false
}

// Release is the command that ends the pause.
func (p *Pause) Release() string {
	if p.Topic != "" {
		return "outbox resume --topic " + shellword.Quote(p.Topic)
	}
	return "outbox resume --destination " + shellword.Quote(p.Destination)
}
