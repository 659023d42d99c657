package outboxtest

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/outboxrelay/outbox"
)

// Purge forgets archived and dead messages. Change.Rate has no effect here.
func (s *Store) Purge(ctx context.Context, c outbox.Change) (outbox.ChangeReport, error) {
	return s.operate(ctx, "purge", c, func(b *box, op *operation) {
		now := b.now()
		b.archive = slices.DeleteFunc(b.archive, func(a Archived) bool {
			return op.mayChange(c) && b.rules.purges(a.State, false, c) && a.matches(c.Filter, now) && op.changes(c)
		})
		for _, r := range b.sorted() {
			if r.state != dead || !op.mayChange(c) || !r.matches(c.Filter, now) {
				continue
			}
			switch {
			case c.States != nil && !slices.Contains(c.States, outbox.StateDead):
			case !b.rules.purges(outbox.StateDead, r.holds, c):
				op.report.Matched++
				op.report.Held++
			case op.changes(c):
				delete(b.rows, r.seq)
			}
		}
	})
}

// Replay delivers archived messages again to one destination. Change.Rate has no effect here.
func (s *Store) Replay(ctx context.Context, c outbox.Change) (outbox.ChangeReport, error) {
	return s.operate(ctx, "replay", c, func(b *box, op *operation) {
		if c.States == nil {
			c.States = []outbox.State{outbox.StateDelivered}
		}
		for _, a := range b.newest(c.Filter, b.now()) {
			switch {
			case !op.mayChange(c):
			case b.rows[a.Seq] != nil:
				op.report.Matched++
				op.report.Held++
			case b.bare:
				op.report.Matched++
				op.report.NoPayload++
			case op.changes(c):
				b.rows[a.Seq] = b.replayed(a, c.Destination)
			}
		}
	})
}

// mayChange reports whether the limit lets the operation go on.
func (op *operation) mayChange(c outbox.Change) bool {
	return c.Limit == 0 || op.report.Changed < c.Limit && (!c.DryRun || op.report.Matched < c.Limit)
}

// changes counts a message, and reports whether it is really to be changed.
func (op *operation) changes(c outbox.Change) bool {
	op.report.Matched++
	if !c.DryRun {
		op.report.Changed++
	}
	return !c.DryRun
}

// operate makes a change that is not of rows one by one.
func (s *Store) operate(ctx context.Context, verb string, c outbox.Change, do func(*box, *operation)) (outbox.ChangeReport, error) {
	b := s.box
	b.mu.Lock()
	defer b.mu.Unlock()
	if done, err := b.before(ctx, verb, c); done != nil || err != nil {
		return reportOf(done), err
	}
	op := &operation{verb: verb, change: c}
	do(b, op)
	b.record(op)
	return op.report, nil
}

// before checks a change; an operation that it goes on with has ended already.
func (b *box) before(ctx context.Context, verb string, c outbox.Change) (done *operation, err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := c.Check(verb); err != nil || c.Continue == 0 {
		return nil, err
	}
	if c.Continue > int64(len(b.operations)) || b.operations[c.Continue-1].verb != verb {
		return nil, &outbox.FieldError{Field: "Continue", Value: fmt.Sprint(c.Continue), Bound: "must be an operation of " + verb}
	}
	return b.operations[c.Continue-1], nil
}

func reportOf(op *operation) outbox.ChangeReport {
	if op == nil {
		return outbox.ChangeReport{}
	}
	return op.report
}

// record enters an operation into the list, unless it was a dry run, and tells of it.
func (b *box) record(op *operation) {
	if !op.change.DryRun {
		op.at = b.now()
		b.operations = append(b.operations, op)
		op.report.Operation = int64(len(b.operations))
		if op.report.Changed > 0 && op.verb != "purge" {
			b.notify()
		}
	}
	if op.change.Progress != nil {
		op.change.Progress(op.report)
	}
}

// Operations lists what operators did, first discards that wait.
func (s *Store) Operations(ctx context.Context, limit int) ([]outbox.Operation, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if limit = cmp.Or(limit, 100); limit < 1 || limit > 1000 {
		return nil, &outbox.FieldError{Field: "limit", Value: fmt.Sprint(limit), Bound: "must be 1 to 1000"}
	}
	b := s.box
	b.mu.Lock()
	defer b.mu.Unlock()
	var list []outbox.Operation
	for _, op := range b.operations {
		state := "done"
		if op.report.Waiting {
			state = "waiting"
		}
		list = append(list, outbox.Operation{
			ID: op.report.Operation, Verb: op.verb, State: state, Filter: words(op.change), Actor: op.change.Actor, Reason: op.change.Reason,
			Rate: op.change.Rate, Matched: op.report.Matched, Changed: op.report.Changed, Held: op.report.Held,
			NoPayload: op.report.NoPayload, StartedAt: op.at, FinishedAt: op.at,
		})
	}
	slices.SortFunc(list, func(a, b outbox.Operation) int {
		return cmp.Or(-cmp.Compare(a.State, b.State), cmp.Compare(b.ID, a.ID))
	})
	return list[:min(limit, len(list))], nil
}

// words are the parts of a filter that are given.
func words(c outbox.Change) map[string]string {
	w := map[string]string{"topic": c.Topic, "key": c.Key, "class": c.Class, "text": c.Text, "destination": cmp.Or(c.Destination, c.BoundTo)}
	if c.ByRoute {
		w["by_route"] = "true"
	}
	if c.Limit > 0 {
		w["limit"] = strconv.FormatInt(c.Limit, 10)
	}
	var ids, states []string
	for _, id := range c.IDs {
		ids = append(ids, id.String())
	}
	for _, s := range c.States {
		states = append(states, string(s))
	}
	w["ids"], w["states"] = strings.Join(ids, ","), strings.Join(states, ",")
	maps.DeleteFunc(w, func(_, value string) bool { return value == "" })
	return w
}
