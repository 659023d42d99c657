package sqlitestore

import (
	"database/sql"
	"encoding/json"
	"fmt"

	"github.com/outboxrelay/outbox"
)

// laneDoc is a lane as it is stored.
type laneDoc struct {
	Topics    outbox.TopicSet `json:"topics"`
	Unordered outbox.TopicSet `json:"unordered,omitempty"`
	Fault     *faultDoc       `json:"fault,omitempty"`
}

type faultDoc struct {
	Misconfigured bool   `json:"misconfigured"`
	Reason        string `json:"reason"`
}

// orders reports whether the lane delivers the topic in order.
func (l *laneDoc) orders(topic string) bool {
	return l.Topics.Contains(topic) && !l.Unordered.Contains(topic)
}

// lanesJSON is the form of RelayInfo.Lanes in the database.
func lanesJSON(lanes []outbox.LaneInfo) string {
	docs := map[string]laneDoc{}
	for _, l := range lanes {
		docs[l.Destination] = laneDoc{l.Topics, l.Unordered, (*faultDoc)(l.Fault)}
	}
	text, _ := json.Marshal(docs) // texts do not fail
	return string(text)
}

// topics says what a lane does with a topic.
type topics struct {
	destination string
	own         laneDoc
	lanes       []laneDoc // of all live relays for this destination
	closed      outbox.TopicSet
	pauses      []outbox.Pause

	known   map[string]bool // answers of takes
	ordered string          // of inOrder, once it was asked for
}

// laneTopics reads the lanes of live relays. It is outbox.ErrLeaseLost when the relay is not among them.
func laneTopics(t *tx, q *outbox.ClaimQuery) (*topics, error) {
	found, has := false, false
	tp := &topics{destination: q.Destination, closed: q.Closed, known: map[string]bool{}}
	err := t.lanes(func(relay string, lanes map[string]laneDoc) {
		l, ok := lanes[q.Destination]
		if ok {
			tp.lanes = append(tp.lanes, l)
		}
		if relay == q.Relay.String() {
			found, has, tp.own = true, ok, l
		}
	})
	switch {
	case err != nil:
		return nil, err
	case !found:
		return nil, fmt.Errorf("relay %s: %w", q.Relay, outbox.ErrLeaseLost)
	case !has:
		return nil, fmt.Errorf("relay %s has no lane %q", q.Relay, q.Destination)
	}
	tp.pauses, err = t.pauses()
	return tp, err
}

// lanes reads the lanes of all live relays.
func (t *tx) lanes(each func(relay string, lanes map[string]laneDoc)) error {
	return t.rows("lanes", []any{t.now}, func(rows *sql.Rows) error {
		var relay, text string
		if err := rows.Scan(&relay, &text); err != nil {
			return err
		}
		var lanes map[string]laneDoc
		if err := json.Unmarshal([]byte(text), &lanes); err != nil {
			return fmt.Errorf("lanes of relay %s: %w", relay, err)
		}
		each(relay, lanes)
		return nil
	})
}

func (t *tx) pauses() (list []outbox.Pause, err error) {
	err = t.rows("pauses", nil, func(rows *sql.Rows) error {
		var scope, name string
		var p outbox.Pause
		var at int64
		if err := rows.Scan(&scope, &name, &p.Reason, &p.Actor, &at); err != nil {
			return err
		}
		p.At = timeOf(at)
		if scope == "topic" {
			p.Topic = name
		} else {
			p.Destination = name
		}
		list = append(list, p)
		return nil
	})
	return list, err
}

// takes reports whether the lane may claim messages of the topic now.
func (tp *topics) takes(topic string) bool {
	takes, known := tp.known[topic]
	if !known {
		takes = tp.own.Topics.Contains(topic) && !tp.closed.Contains(topic) && !isPaused(tp.pauses, topic, tp.destination)
		tp.known[topic] = takes
	}
	return takes
}

func isPaused(pauses []outbox.Pause, topic, destination string) bool {
	for _, p := range pauses {
		if p.Topic != "" && outbox.MatchTopic(p.Topic, topic) || p.Destination != "" && p.Destination == destination {
			return true
		}
	}
	return false
}

// keyOf is the key that orders the message in this lane.
func (tp *topics) keyOf(c *candidate) string {
	if tp.own.Unordered.Contains(c.topic) {
		return ""
	}
	return c.key
}

// inOrder lists the topics that some live relay delivers to the destination in order. A topic that nobody handles
// holds no key.
func (tp *topics) inOrder(t *tx) (string, error) {
	if tp.ordered != "" {
		return tp.ordered, nil
	}
	ordered, err := t.topicsWhere(func(topic string) bool { return ordersAny(tp.lanes, topic) })
	tp.ordered = array(ordered)
	return tp.ordered, err
}

// topicsWhere lists topics of messages that have not ended.
func (t *tx) topicsWhere(in func(topic string) bool) (list []string, err error) {
	err = t.rows("topics", nil, func(rows *sql.Rows) error {
		var topic string
		err := rows.Scan(&topic)
		if err == nil && in(topic) {
			list = append(list, topic)
		}
		return err
	})
	return list, err
}

func ordersAny(lanes []laneDoc, topic string) bool {
	for i := range lanes {
		if lanes[i].orders(topic) {
			return true
		}
	}
	return false
}
