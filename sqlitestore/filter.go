package sqlitestore

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/outboxrelay/outbox"
)

// filter says which messages are meant, as it is stored; ages as times, so that it means the same when it is gone on with.
type filter struct {
	IDs         []outbox.ID    `json:"ids,omitempty"`
	Topic       string         `json:"topic,omitempty"`
	Key         string         `json:"key,omitempty"`
	Class       string         `json:"class,omitempty"`
	Text        string         `json:"text,omitempty"`
	States      []outbox.State `json:"states,omitempty"`
	Before      time.Time      `json:"before,omitzero"`
	After       time.Time      `json:"after,omitzero"`
	Limit       int64          `json:"limit,omitempty"`
	Holding     bool           `json:"holding,omitempty"`
	Destination string         `json:"destination,omitempty"` // of a replay or a pause
	BoundTo     string         `json:"bound_to,omitempty"`
	ByRoute     bool           `json:"by_route,omitempty"`
}

func newFilter(now int64, f outbox.Filter) filter {
	stored := filter{IDs: f.IDs, Topic: f.Topic, Key: f.Key, Class: f.Class, Text: f.Text, BoundTo: f.BoundTo, States: f.States, Limit: f.Limit}
	if f.OlderThan > 0 {
		stored.Before = timeOf(now - milliseconds(f.OlderThan)).UTC()
	}
	if f.NewerThan > 0 {
		stored.After = timeOf(now - milliseconds(f.NewerThan)).UTC()
	}
	return stored
}

// storedRow is a message, wherever it is stored, as filters look at it.
type storedRow struct {
	seq         int64
	generation  int
	topic, key  string
	state       outbox.State
	holds       bool
	attempts    int
	class, text string
	due         int64 // of a waiting one
	since       int64 // its age counts from here: death, end, publishing
	destination string
}

// means reports whether the message is meant; ids and the limit are not looked at.
func (f *filter) means(r *storedRow) bool {
	return (f.States == nil || slices.Contains(f.States, r.state)) &&
		(f.Topic == "" || outbox.MatchTopic(f.Topic, r.topic)) &&
		(f.Key == "" || f.Key == r.key) &&
		(f.Class == "" || f.Class == r.class) &&
		strings.Contains(r.text, f.Text) &&
		(f.BoundTo == "" || f.BoundTo == r.destination) &&
		(f.Before.IsZero() || r.since <= f.Before.UnixMilli()) &&
		(f.After.IsZero() || r.since > f.After.UnixMilli())
}

// words are the parts that are given.
func (f *filter) words() map[string]string {
	words := map[string]string{"topic": f.Topic, "key": f.Key, "class": f.Class, "text": f.Text, "destination": f.Destination}
	var ids, states []string
	for _, id := range f.IDs {
		ids = append(ids, id.String())
	}
	for _, s := range f.States {
		states = append(states, string(s))
	}
	words["ids"], words["states"] = strings.Join(ids, ","), strings.Join(states, ",")
	for name, at := range map[string]time.Time{"before": f.Before, "after": f.After} {
		if !at.IsZero() {
			words[name] = at.Format(time.RFC3339Nano)
		}
	}
	if f.Limit > 0 {
		words["limit"] = strconv.FormatInt(f.Limit, 10)
	}
	if f.BoundTo != "" {
		words["destination"] = f.BoundTo
	}
	if f.Holding {
		words["holding"] = "true"
	}
	if f.ByRoute {
		words["by_route"] = "true"
	}
	maps.DeleteFunc(words, func(_, value string) bool { return value == "" })
	return words
}
