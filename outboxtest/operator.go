package outboxtest

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/outboxrelay/outbox"
)

var _ outbox.Archivist = (*Store)(nil)

// operation is what an operator did. In memory every change is made at once, so none has to be gone on with, but for
// a discard that waits.
type operation struct {
	verb    string
	change  outbox.Change
	report  outbox.ChangeReport
	at      time.Time
	awaited map[int64]bool // messages to be discarded when they are settled
}

// Redrive delivers dead messages again. Change.Rate has no effect here.
func (s *Store) Redrive(ctx context.Context, c outbox.Change) (outbox.ChangeReport, error) {
	return s.change(ctx, "redrive", c, func(b *box, r *row) bool { return r.state == dead }, func(b *box, r *row) {
		r.state, r.holds, r.availableAt = waiting, true, b.now()
		r.attempts, r.generation = 0, r.generation+1
		if c.ByRoute {
			r.destination = ""
		}
	})
}

// Retry makes messages due that wait for another attempt. Change.Rate has no effect here.
func (s *Store) Retry(ctx context.Context, c outbox.Change) (outbox.ChangeReport, error) {
	if c.ByRoute {
		return s.change(ctx, "retry", c, func(_ *box, r *row) bool { return r.state == waiting }, reroute)
	}
	return s.change(ctx, "retry", c, func(b *box, r *row) bool {
		return r.state == waiting && !r.isDue(b.now()) && (r.attempts > 0 || c.IDs != nil)
	}, func(b *box, r *row) { r.availableAt = b.now() })
}

// reroute lets the routes decide again where a waiting message goes that no live relay holds.
func reroute(b *box, r *row) {
	if r.claim != nil { // of nobody any more
		if lapses := r.lapses(); lapses >= outbox.SuspectLapses {
			r.suspicion = lapses
		}
		b.rules.fences(b, r)
	}
	r.destination, r.availableAt, r.holds = "", b.now(), r.Key != ""
}

// Discard removes messages. Change.Rate has no effect here.
func (s *Store) Discard(ctx context.Context, c outbox.Change) (outbox.ChangeReport, error) {
	report, err := s.change(ctx, "discard", c, func(*box, *row) bool { return true }, nil)
	if err != nil || report.Held == 0 || c.Wait == 0 || c.DryRun {
		return report, err
	}
	return s.awaitDiscard(ctx, report, c)
}

// change applies do to all rows that match, oldest first; nil discards them.
func (s *Store) change(ctx context.Context, verb string, c outbox.Change, open func(*box, *row) bool, do func(*box, *row)) (outbox.ChangeReport, error) {
	b := s.box
	b.mu.Lock()
	defer b.mu.Unlock()
	if done, err := b.before(ctx, verb, c); done != nil || err != nil {
		return reportOf(done), err
	}
	op := &operation{verb: verb, change: c, awaited: map[int64]bool{}}
	now := b.now()
	for _, r := range b.sorted() {
		if c.Limit > 0 && (op.report.Changed == c.Limit || c.DryRun && op.report.Matched == c.Limit) {
			break
		}
		if open(b, r) && r.matches(c.Filter, now) {
			b.changeRow(op, r, c.DryRun, do, now)
		}
	}
	b.record(op)
	return op.report, nil
}

func (b *box) changeRow(op *operation, r *row, dryRun bool, do func(*box, *row), now time.Time) {
	op.report.Matched++
	held := b.leaves(op, r, now)
	if held {
		op.report.Held++
	}
	switch {
	case dryRun:
	case held && do == nil:
		op.awaited[r.seq] = true
	case held:
	case do == nil:
		b.discard(r, op)
		op.report.Changed++
	default:
		do(b, r)
		op.report.Changed++
	}
}

// leaves reports whether a change leaves the row alone.
func (b *box) leaves(op *operation, r *row, now time.Time) bool {
	if op.verb == "redrive" {
		return !op.change.ByRoute && b.rules.strands(b, r)
	}
	return (op.verb == "discard" || op.change.ByRoute) && b.isHeldLive(r, now)
}

// sorted are all rows in publish order.
func (b *box) sorted() []*row {
	rows := make([]*row, 0, len(b.rows))
	for _, r := range b.rows {
		rows = append(rows, r)
	}
	slices.SortFunc(rows, bySeq)
	return rows
}

// matches reports whether a filter means the row. Age counts from death, else from publishing.
func (r *row) matches(f outbox.Filter, now time.Time) bool {
	since := r.publishedAt
	if r.state == dead {
		since = r.diedAt
	}
	old := now.Sub(since)
	return (f.States == nil || slices.Contains(f.States, states[r.state])) &&
		(f.IDs == nil || slices.Contains(f.IDs, r.ID)) &&
		(f.Topic == "" || outbox.MatchTopic(f.Topic, r.Topic)) &&
		(f.Key == "" || f.Key == r.Key) &&
		(f.Class == "" || f.Class == r.class) &&
		strings.Contains(r.text, f.Text) &&
		(f.BoundTo == "" || f.BoundTo == r.destination) &&
		(f.OlderThan == 0 || old >= f.OlderThan) &&
		(f.NewerThan == 0 || old < f.NewerThan)
}

// isHeldLive reports whether a live relay holds the message.
func (b *box) isHeldLive(r *row, now time.Time) bool {
	return b.rules.heldLive(b, r, now)
}

// discard removes a message that no live relay holds. Whoever listed it is fenced, as by a takeover.
func (b *box) discard(r *row, op *operation) {
	if r.claim != nil {
		b.rules.fences(b, r)
	}
	b.keep(r, outbox.StateDiscarded, Archived{Detail: op.change.Reason, Actor: op.change.Actor})
	delete(b.rows, r.seq)
	b.discarded++
}

// honour discards a message that has just been settled, if an operator waits for it.
func (b *box) honour(r *row) {
	for _, op := range b.operations {
		if b.rules.honours(op, r) && b.rows[r.seq] == r {
			b.discard(r, op)
			op.report.Changed++
			op.report.Held--
			delete(op.awaited, r.seq)
		}
	}
}

// awaitDiscard waits until the relays have let go of what they held.
func (s *Store) awaitDiscard(ctx context.Context, report outbox.ChangeReport, c outbox.Change) (outbox.ChangeReport, error) {
	const interval = 5 * time.Millisecond
	b := s.box
	deadline := time.Now().Add(c.Wait)
	for {
		report = b.discardAwaited(report.Operation, ctx.Err() == nil && time.Now().Before(deadline))
		if c.Progress != nil {
			c.Progress(report)
		}
		if !report.Waiting && report.Held > 0 && ctx.Err() != nil {
			return report, fmt.Errorf("discard: %w", context.Cause(ctx))
		}
		if !report.Waiting {
			return report, nil
		}
		select {
		case <-ctx.Done():
		case <-time.After(interval):
		}
	}
}

// discardAwaited discards what nobody holds any more and goes on waiting for the rest, or gives up.
func (b *box) discardAwaited(id int64, goOn bool) outbox.ChangeReport {
	b.mu.Lock()
	defer b.mu.Unlock()
	op := b.operations[id-1]
	for seq := range op.awaited {
		r := b.rows[seq]
		switch {
		case r != nil && b.isHeldLive(r, b.now()):
			continue
		case r != nil:
			b.discard(r, op)
			op.report.Changed++
			b.notify()
		}
		op.report.Held--
		delete(op.awaited, seq)
	}
	op.report.Waiting = goOn && len(op.awaited) > 0
	return op.report
}

// Pause keeps relays from claiming a topic pattern or a destination.
func (s *Store) Pause(ctx context.Context, p outbox.Pause) (outbox.ChangeReport, error) {
	return s.control(ctx, "pause", p, func(b *box, others []outbox.Pause) []outbox.Pause {
		p.At = b.now()
		others = append(others, p)
		slices.SortFunc(others, func(a, b outbox.Pause) int {
			return cmp.Or(cmp.Compare(a.Destination, b.Destination), cmp.Compare(a.Topic, b.Topic))
		})
		return others
	})
}

// Resume ends a pause.
func (s *Store) Resume(ctx context.Context, p outbox.Pause) (outbox.ChangeReport, error) {
	return s.control(ctx, "resume", p, func(b *box, others []outbox.Pause) []outbox.Pause {
		if len(others) == len(b.pauses) {
			return nil
		}
		b.notify()
		return others
	})
}

// control changes the pauses; change is given those but the one that is meant, and returns nil for no change.
func (s *Store) control(ctx context.Context, verb string, p outbox.Pause, change func(b *box, others []outbox.Pause) []outbox.Pause) (outbox.ChangeReport, error) {
	if err := ctx.Err(); err != nil {
		return outbox.ChangeReport{}, err
	}
	if err := p.Check(); err != nil {
		return outbox.ChangeReport{}, err
	}
	b := s.box
	b.mu.Lock()
	defer b.mu.Unlock()
	others := slices.DeleteFunc(slices.Clone(b.pauses), func(o outbox.Pause) bool {
		return o.Topic == p.Topic && o.Destination == p.Destination
	})
	if others == nil {
		others = []outbox.Pause{}
	}
	pauses := change(b, others)
	if pauses == nil {
		return outbox.ChangeReport{}, nil
	}
	b.pauses = pauses
	op := &operation{verb: verb, at: b.now(),
		change: outbox.Change{Filter: outbox.Filter{Topic: p.Topic}, Destination: p.Destination, Actor: p.Actor, Reason: p.Reason},
		report: outbox.ChangeReport{Operation: int64(len(b.operations)) + 1, Matched: 1, Changed: 1}}
	b.operations = append(b.operations, op)
	return op.report, nil
}

// isPaused reports whether no lane of the destination may claim the topic.
func (b *box) isPaused(topic, destination string) bool {
	return slices.ContainsFunc(b.pauses, func(p outbox.Pause) bool {
		return b.rules.pauses(p, topic, destination)
	})
}
