package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/outboxrelay/outbox/internal/history"
)

// TestVerdictsFire: what a cell of the matrix must notice is planted into a run without a fault, at a broker and at a
// handler: a message that disappears, one that comes again, two of a key in the wrong order, another payload.
func TestVerdictsFire(t *testing.T) {
	plays(t)
	calm := fault{name: "calm", exact: true, play: func(*cell) {}}
	for _, p := range []place{{destination: toJetStream, order: "skip"}, {destination: toHandler, order: "skip"}} {
		t.Run(p.destination, func(t *testing.T) {
			c := newCell(t, newSite(t, p.destination), row{&calm, p}, seedOf(t))
			// Nobody sees the message any more that is taken from the table.
			c.play = func(c *cell) { c.hold(); c.takeAway() }
			m, err := c.runAll()
			if m.lost != 1 || err == nil || strings.Count(err.Error(), "lost: ") != 1 {
				t.Errorf("a message that disappears: %+v, %v", m, err)
			}
			events := c.h.History()
			for name, plant := range map[string]func([]history.Event) []history.Event{
				"duplicate": repeated, "overtaken": swapped, "changed": changed,
			} {
				report := history.Check(plant(slices.Clone(events)), history.Options{})
				m := measure(plant(slices.Clone(events)), report)
				err := fmt.Sprint(report.Err(), m.check(0))
				ok := strings.Contains(err, name+": ")
				switch name {
				case "duplicate":
					ok = m.duplicates == 1 && strings.Contains(err, "1 messages were delivered again, of which 0 may have been in flight")
				case "overtaken":
					ok = ok && m.disorders > 0
				}
				if !ok {
					t.Errorf("%s: %+v, %s", name, m, err)
				}
			}
		})
	}
}

// takeAway removes a committed message before any relay has it.
func (c *cell) takeAway() {
	c.db.exec(c.t, `insert into outbox.control (scope, name) values ('topic', '>')`)
	defer c.db.exec(c.t, `delete from outbox.control`)
	remove := `with gone as (delete from outbox.message where seq = (select max(m.seq) from outbox.message m
		where not exists (select from outbox.claim c where m.seq = any (c.seqs))) returning 1) select count(*) from gone`
	until(c.t, patience, "a message waits, and is removed", func() bool { return c.db.count(c.t.Context(), remove) == 1 })
}

// accepted finds the beginning and the end of a delivery that was accepted.
func accepted(events []history.Event, wanted func(history.Event) bool) (begun, end int) {
	for i, b := range events {
		if b.Kind != history.Begun || !wanted(b) {
			continue
		}
		for j := i + 1; j < len(events); j++ {
			if e := events[j]; e.Kind == history.Accepted && e.Message == b.Message && e.Claim == b.Claim && e.Relay == b.Relay {
				return i, j
			}
		}
	}
	panic("the history has no such delivery")
}

func whichever(history.Event) bool { return true }

// repeated delivers a message once more, long after.
func repeated(events []history.Event) []history.Event {
	i, j := accepted(events, whichever)
	b, e := events[i], events[j]
	b.At, e.At = events[len(events)-1].At+1, events[len(events)-1].At+2
	b.Relay, e.Relay, b.Claim, e.Claim = "other", "other", 999, 999
	return append(events, b, e)
}

// swapped lets a message land only after the next one of its key, which was published when it had been committed.
func swapped(events []history.Event) []history.Event {
	committed, publishing := map[string]int64{}, map[string]int64{}
	for _, e := range events {
		switch e.Kind {
		case history.Committed:
			committed[e.Message] = e.At
		case history.Publishing:
			publishing[e.Message] = e.At
		}
	}
	var older history.Event
	i, j := accepted(events, func(b history.Event) bool {
		if b.Attempt > 1 || b.Key == "" {
			return false
		}
		for _, next := range events {
			if next.Kind == history.Begun && next.Key == b.Key && next.Seq > b.Seq && next.At > b.At && committed[b.Message] != 0 && publishing[next.Message] > committed[b.Message] {
				older = next
				return true
			}
		}
		return false
	})
	late := older.At + int64(time.Millisecond)
	events[i].At, events[j].At = late, late+1
	return events
}

// changed lets a message land with another payload.
func changed(events []history.Event) []history.Event {
	i, _ := accepted(events, whichever)
	events[i].Payload = "other"
	return events
}

// TestStall: the longest time without a delivery counts while something waits, and no other.
func TestStall(t *testing.T) {
	at := func(seconds int, kind history.Kind, id string) history.Event {
		return history.Event{At: int64(seconds) * int64(time.Second), Kind: kind, Message: id}
	}
	scheduled := at(1, history.Committed, "s")
	scheduled.Deferred = true
	for _, c := range []struct {
		name   string
		events []history.Event
		want   time.Duration
	}{
		{"nothing waits", []history.Event{at(1, history.Committed, "a"), at(2, history.Accepted, "a"), at(9, history.Committed, "b"), at(10, history.Accepted, "b")}, time.Second},
		{"one waits", []history.Event{at(1, history.Committed, "a"), at(2, history.Accepted, "a"), at(3, history.Committed, "b"), at(10, history.Accepted, "b")}, 7 * time.Second},
		{"others are delivered", []history.Event{at(1, history.Committed, "a"), at(1, history.Committed, "b"), at(4, history.Accepted, "b"), at(6, history.Accepted, "a")}, 3 * time.Second},
		{"scheduled", []history.Event{scheduled, at(9, history.Accepted, "s")}, 0},
		{"accepted before it was told", []history.Event{at(1, history.Accepted, "a"), at(2, history.Committed, "a"), at(9, history.Accepted, "c")}, 0},
	} {
		if got := stall(c.events); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}
