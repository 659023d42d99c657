package e2e

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/outboxrelay/outbox/internal/history"
)

// measured is a cell of the matrix.
type measured struct {
	committed, delivered, duplicates, disorders, lost int
	stall                                             time.Duration
}

// judge compares what was published with what was delivered.
func (c *cell) judge() (measured, error) {
	c.t.Helper()
	if c.target != nil {
		if q, consumes := c.target.(*queueTarget); consumes {
			c.awaitLandings(q)
		}
		for _, e := range landingEvents(c.target.landed(c.t)) {
			c.tell(e)
		}
	}
	events := c.h.History()
	o := history.Options{Order: func(string) history.Order { return policies[c.order].history }}
	if c.forgotten.from != 0 {
		events = c.forget(events)
		o.SettleLoss = int64(time.Hour) // a backup has no settlements that came after it
	}
	report := history.Check(events, o)
	c.t.Logf("%+v", report.Counts)
	m := measure(events, report)
	err := errors.Join(report.Err(), m.check(c.repeats))
	if n := c.db.count(c.t.Context(), `select count(*) from outbox.dead`); n != 0 {
		err = errors.Join(err, fmt.Errorf("%d messages are dead, want none: a fault has spent their attempts", n))
	}
	return m, err
}

// awaitLandings waits until the queue's consumer has what the relays have delivered, or something is lost.
func (c *cell) awaitLandings(q *queueTarget) {
	committed := map[string]bool{}
	for _, e := range c.h.History() {
		if e.Kind == history.Committed && !c.forgotten.has(e.At) {
			committed[e.Message] = true
		}
	}
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		missing := len(committed)
		seen := map[string]bool{}
		for _, l := range q.landed(c.t) {
			if committed[l.id] && !seen[l.id] {
				missing--
			}
			seen[l.id] = true
		}
		if missing == 0 {
			return
		}
	}
}

// forget leaves out what was committed when the database would not keep it, and allows what was delivered then to come
// again.
func (c *cell) forget(events []history.Event) []history.Event {
	return slices.DeleteFunc(events, func(e history.Event) bool {
		if e.Kind == history.Accepted && c.forgotten.has(e.At) {
			c.repeats++
		}
		return e.Kind == history.Committed && c.forgotten.has(e.At)
	})
}

// check tells what a number says that the history's rules do not.
func (m measured) check(repeats int) error {
	const few = 100
	var errs []error
	if m.committed < few {
		errs = append(errs, fmt.Errorf("only %d messages were committed: the load was none", m.committed))
	}
	if m.duplicates > repeats {
		errs = append(errs, fmt.Errorf("%d messages were delivered again, of which %d may have been in flight", m.duplicates, repeats))
	}
	return errors.Join(errs...)
}

func measure(events []history.Event, report history.Report) measured {
	m := measured{committed: report.Counts.Committed, duplicates: report.Counts.Duplicates, stall: stall(events)}
	accepted := map[string]bool{}
	for _, e := range events {
		if e.Kind == history.Accepted {
			accepted[e.Message] = true
		}
	}
	m.delivered = len(accepted)
	for _, v := range report.Violations {
		switch v.Kind {
		case history.Lost:
			m.lost++
		case history.Overtaken, history.Concurrent:
			m.disorders++
		}
	}
	return m
}

// stall is the longest time in which committed messages waited and none was delivered. Scheduled ones do not wait.
func stall(events []history.Event) (longest time.Duration) {
	const (
		committed = 1
		accepted  = 2
	)
	state := map[string]int{}
	waiting, since := 0, int64(0)
	events = slices.Clone(events)
	slices.SortStableFunc(events, func(a, b history.Event) int { return cmp.Compare(a.At, b.At) })
	for _, e := range events {
		was := state[e.Message]
		switch {
		case e.Kind == history.Committed && !e.Deferred && was == 0:
			if state[e.Message] = committed; waiting == 0 {
				since = e.At
			}
			waiting++
		case e.Kind == history.Accepted && was != accepted:
			state[e.Message] = accepted
			if waiting > 0 {
				longest = max(longest, time.Duration(e.At-since))
			}
			if since = e.At; was == committed {
				waiting--
			}
		}
	}
	return longest
}
