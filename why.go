package outbox

import (
	"fmt"
	"slices"
	"time"

	"github.com/outboxrelay/outbox/internal/inwords"
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
	// Destinations that live relays deliver its topic to.
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
		if w.Query.Key != "" {
			return []Reason{{Text: fmt.Sprintf("no message of key %q is ready, waiting or dead", w.Query.Key)}}
		}
		return []Reason{{Text: fmt.Sprintf("message %s is not here: it was delivered or discarded, has expired, or was never published", w.Query.ID)}}
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

// isSuspect reports whether its next delivery, or the one under way, is alone: see SuspectLapses.
func (m *MessageState) isSuspect() bool { return m.State != "dead" && m.Lapses >= SuspectLapses }

// words says where the message is.
func (m *MessageState) words() string {
	text := fmt.Sprintf("message %s of topic %s", m.ID, m.Topic)
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
	case m.State == "waiting" && m.Due > 0 && m.Attempts == 0 && m.Generation == 0:
		return fmt.Sprintf("%s is scheduled: due in %s", text, inwords.Age(m.Due))
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
	switch {
	case m.State == "dead" && m.Holds:
		return []Reason{{"its key is parked: younger messages wait until it is redriven or discarded", "outbox redrive --id " + id}}
	case m.State == "dead":
		return []Reason{{"it is not tried again by itself", "outbox redrive --id " + id}}
	case m.Holder != nil && m.Holder.Live:
		return []Reason{{"its delivery is under way", "outbox relays"}}
	case m.State == "waiting" && m.Due > 0:
		return []Reason{{"it waits for its time", "outbox retry --id " + id}}
	}
	for _, p := range w.Pauses {
		if p.covers(m.Topic, m.Destinations) {
			reasons = append(reasons, Reason{pauseWords(p), p.Release()})
		}
	}
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
	if d := w.outage(m); d != nil {
		return []Reason{d.reason()}
	}
	return []Reason{{"nothing keeps it: a relay takes it when it has room", "outbox status"}}
}

// outage is the destination of a message that no relay finds available; nil: there is none.
func (w *Why) outage(m *MessageState) *DestinationStatus {
	for i := range w.Destinations {
		if d := &w.Destinations[i]; d.Fault != nil && d.Faulty == d.Relays && slices.Contains(m.Destinations, d.Name) {
			return d
		}
	}
	return nil
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
