package outbox

import (
	"fmt"
	"slices"
	"time"

	"github.com/outboxrelay/outbox/internal/inwords"
	"github.com/outboxrelay/outbox/internal/shellword"
)

// WhyQuery asks about a message or about a key.
type WhyQuery struct {
	ID  ID
	Key string
}

// Check reports with a *FieldError what is wrong with the query.
func (q *WhyQuery) Check() error {
	if q.ID.IsZero() == (q.Key == "") {
		return fieldError("WhyQuery", q.Key, "must name an id or a key, one of them")
	}
	return checkTexts(map[string]string{"Key": q.Key})
}

// Why is what keeps a message from being delivered, as facts; Reasons puts them into words.
type Why struct {
	Query WhyQuery
	// Message is the message asked for, or the first one of the key. Nil: there is none.
	Message *MessageState
	// Ended is how the message that was asked for has ended the last time, if it is kept. Nil if there is a Message.
	Ended *MessageInfo
	// Dead counts the dead messages of the key that do not hold it, up to 10,000.
	Dead Depth
	// Head is the message that Message stands behind, the first one of its key. Nil: none.
	Head *MessageState
	// Older counts what is before Message in its key, ready messages only; Younger what is behind it. Both are counted up to 10,000.
	Older, Younger Depth
	Pauses         []Pause // that cover Message or Head
	LiveRelays     int
	// Destinations of live relays, as they see them.
	Destinations []DestinationStatus
}

// MessageState is where a message is.
type MessageState struct {
	ID          ID
	Seq         int64
	Topic, Key  string
	State       string // "ready", "waiting" or "dead"
	Attempts    int    // failed ones
	Lapses      int    // how many relays have died with it; from SuspectLapses on it is a suspect, delivered alone
	Generation  int
	Class, Text string // of the last failure
	PublishedAt time.Time
	Due         time.Duration // of a waiting one: until its next attempt; not above zero: now
	Died        time.Duration // of a dead one: since then
	Holds       bool          // younger messages of its key wait for it, where the topic is delivered in order
	Holder      *ClaimState   // nil: no claim lists it
	Destination string        // the only one that it may go to, since a replay bound it; empty: by route
	// Destinations to which live relays would deliver it.
	Destinations []string
}

// ClaimState is the claim that lists a message.
type ClaimState struct {
	Destination string
	Claimed     time.Duration // since then
	Live        bool          // its relay's lease lasts
	Host        string        // empty: given back
	PID         int
}

// Reason is one link of the chain from a message to what has to happen first.
type Reason struct {
	Text    string
	Command string // that releases it, or shows more; may be empty
}

// Reasons is the chain: the message, what is before it, and what keeps that.
func (w *Why) Reasons() []Reason {
	if w.Message == nil {
		return []Reason{w.absence()}
	}
	reasons := []Reason{{Text: w.Message.words()}}
	if w.Head == nil {
		return append(reasons, w.releases(w.Message)...)
	}
	if w.Message.Holder == nil && w.Message.State != "dead" {
		reasons = append(reasons, Reason{Text: fmt.Sprintf("message %s of its key %q, published before it, must end first", w.Head.ID, w.Head.Key)},
			Reason{Text: w.Head.words()})
		return append(reasons, w.releases(w.Head)...)
	}
	return append(reasons, w.releases(w.Message)...)
}

// IsExplained reports whether Reasons say more than that there is no such message.
func (w *Why) IsExplained() bool { return w.Message != nil || w.Ended != nil || w.Dead.Messages > 0 }

// absence is why there is no message to deliver.
func (w *Why) absence() Reason {
	switch {
	case w.Ended != nil:
		return Reason{endedWords(w.Ended), "outbox show " + w.Ended.Message.ID.String()}
	case w.Query.Key == "":
		return Reason{Text: fmt.Sprintf("message %s is not here: it was delivered or discarded, has expired, or was never published", w.Query.ID)}
	case w.Dead.Messages > 0:
		return Reason{fmt.Sprintf("no message of key %q is ready or waiting; %s", w.Query.Key, w.deadWords()), w.ReleaseDead()}
	}
	return Reason{Text: fmt.Sprintf("no message of key %q is ready, waiting or dead", w.Query.Key)}
}

// endedWords say how a message has ended that is kept.
func endedWords(m *MessageInfo) string {
	text := fmt.Sprintf("message %s of topic %s is not to be delivered: it was %s", m.Message.ID, m.Message.Topic, m.State)
	if m.State == StateExpired {
		text = fmt.Sprintf("message %s of topic %s is not to be delivered: it has expired", m.Message.ID, m.Message.Topic)
	}
	if m.Destination != "" && m.State == StateDelivered {
		text += " to " + m.Destination
	}
	if m.Actor != "" {
		text += " by " + m.Actor
	}
	text += " at " + m.EndedAt.UTC().Format(time.RFC3339)
	if m.Text != "" {
		text += ": " + m.Text
	}
	return text
}

// deadWords count the dead messages of the key.
func (w *Why) deadWords() string {
	more := ""
	if w.Dead.AtLeast {
		more = "+"
	}
	return fmt.Sprintf("dead, without holding it: %d%s", w.Dead.Messages, more)
}

// ReleaseDead is the command that delivers the dead messages of the key again that do not hold it. Empty: there are none.
func (w *Why) ReleaseDead() string {
	if w.Dead.Messages == 0 {
		return ""
	}
	return "outbox redrive --key " + shellword.Quote(w.Query.Key)
}

// isSuspect reports whether its next delivery, or the one under way, is alone: see SuspectLapses.
func (m *MessageState) isSuspect() bool { return m.State != "dead" && m.Lapses >= SuspectLapses }

// words says where the message is.
func (m *MessageState) words() string {
	text := fmt.Sprintf("message %s of topic %s", m.ID, m.Topic)
	if m.Destination != "" {
		text += ", which a replay has bound to destination " + m.Destination + ","
	}
	failed, alone := "", ""
	if m.isSuspect() {
		alone = "; relays have died with it, so it is delivered alone"
	}
	if m.Class != "" {
		failed = fmt.Sprintf("; last error (%s): %s", m.Class, m.Text)
	}
	switch {
	case m.State == "dead":
		return fmt.Sprintf("%s is dead since %s, after %d attempts%s", text, inwords.Age(m.Died), m.Attempts, failed)
	case m.Holder != nil && m.Holder.Live:
		return fmt.Sprintf("%s is held by relay %s/pid %d for destination %s since %s%s%s", text, m.Holder.Host, m.Holder.PID,
			m.Holder.Destination, inwords.Age(m.Holder.Claimed), alone, failed)
	case m.State == "waiting" && m.Due > 0 && m.Attempts == 0:
		return fmt.Sprintf("%s is scheduled: due in %s%s%s", text, inwords.Age(m.Due), alone, failed)
	case m.State == "waiting" && m.Due > 0:
		return fmt.Sprintf("%s failed %d times and is tried again in %s%s%s", text, m.Attempts, inwords.Age(m.Due), alone, failed)
	case m.Holder != nil && m.Holder.Host == "":
		return text + " was given back and is the next one to be claimed" + alone + failed
	case m.Holder != nil:
		return fmt.Sprintf("%s is held by relay %s/pid %d, whose lease has lapsed: the next claim takes it over%s%s",
			text, m.Holder.Host, m.Holder.PID, alone, failed)
	}
	return text + " is due" + alone + failed
}

// releases are the reasons that concern one message alone.
func (w *Why) releases(m *MessageState) (reasons []Reason) {
	id := m.ID.String()
	if lack := w.stranded(m); lack != nil {
		return []Reason{*lack}
	}
	switch {
	case m.State == "dead" && m.Holds:
		return []Reason{{"its key is parked: younger messages wait until it is redriven or discarded", "outbox redrive --id " + id}}
	case m.State == "dead":
		return []Reason{{"it is not tried again by itself", "outbox redrive --id " + id}}
	case m.Holder != nil && m.Holder.Live:
		return append([]Reason{{"its delivery is under way", "outbox relays"}}, w.outages(m)...)
	case m.State == "waiting" && m.Due > 0:
		reasons = []Reason{{"it waits for its time", "outbox retry --id " + id}}
	}
	for _, p := range w.Pauses {
		if p.covers(m.Topic, m.Destinations) {
			reasons = append(reasons, Reason{pauseWords(p), p.Release()})
		}
	}
	reasons = append(reasons, w.outages(m)...)
	switch {
	case reasons != nil:
		return reasons
	case w.LiveRelays == 0:
		return []Reason{{"no relay runs", "outbox run"}}
	case len(m.Destinations) == 0:
		return []Reason{{fmt.Sprintf("no live relay delivers topic %s", m.Topic), "outbox relays"}}
	case m.isSuspect():
		return []Reason{{"it waits for its turn: a relay takes one such message at a time", "outbox relays"}}
	}
	return []Reason{{"nothing keeps it: a relay takes it when it has room", "outbox status"}}
}

// stranded is what a message lacks that is bound to a destination where no live relay would take it. Nil: nothing, or no relay is
// live.
func (w *Why) stranded(m *MessageState) *Reason {
	if m.Destination == "" || w.LiveRelays == 0 || len(m.Destinations) > 0 || m.Holder != nil && m.Holder.Live {
		return nil
	}
	lack := Stranded{Destination: m.Destination}
	if slices.ContainsFunc(w.Destinations, func(d DestinationStatus) bool { return d.Name == m.Destination && d.Relays > 0 }) {
		lack.Topic = m.Topic
	}
	verb := "retry"
	if m.State == "dead" {
		verb = "redrive"
	}
	return &Reason{"it is bound to " + lack.Lack(),
		fmt.Sprintf("outbox %s --id %s --destination %s --by-route", verb, m.ID, shellword.Quote(m.Destination))}
}

// outages tell of the destinations of a message that no relay finds available.
func (w *Why) outages(m *MessageState) (reasons []Reason) {
	for i := range w.Destinations {
		if d := &w.Destinations[i]; d.Fault != nil && d.Faulty == d.Relays && slices.Contains(m.Destinations, d.Name) {
			reasons = append(reasons, d.reason())
		}
	}
	return reasons
}

func (d *DestinationStatus) reason() Reason {
	text := fmt.Sprintf("destination %s is %s, no attempt is spent meanwhile: %s", d.Name, d.Fault.State(), d.Fault.Reason)
	if d.Fault.Misconfigured {
		return Reason{text, "outbox check"}
	}
	return Reason{text, "outbox status"}
}

func pauseWords(p Pause) string {
	what := "destination " + p.Destination
	if p.Topic != "" {
		what = "topic " + p.Topic
	}
	text := fmt.Sprintf("%s is paused by %s", what, p.Actor)
	if p.Reason != "" {
		text += ": " + p.Reason
	}
	return text
}
