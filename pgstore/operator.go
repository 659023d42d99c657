package pgstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outboxrelay/outbox"
)

// Redrive delivers dead messages again; see outbox.Operator.
func (s *Store) Redrive(ctx context.Context, c outbox.Change) (outbox.ChangeReport, error) {
	return s.change(ctx, "redrive", s.sql.redrive, c)
}

// Retry makes messages due that wait for another attempt; see outbox.Operator.
func (s *Store) Retry(ctx context.Context, c outbox.Change) (outbox.ChangeReport, error) {
	return s.change(ctx, "retry", s.sql.retry, c)
}

// Discard removes messages; see outbox.Operator.
func (s *Store) Discard(ctx context.Context, c outbox.Change) (outbox.ChangeReport, error) {
	report, err := s.change(ctx, "discard", s.sql.discard, c)
	if err != nil || report.More || report.Held == 0 || c.Wait == 0 || c.DryRun {
		return report, err
	}
	return s.awaitDiscard(ctx, report, c)
}

// Purge forgets messages that have ended, and dead ones; see outbox.Operator. What is in a partition of the archive all of
// which is meant goes with it, at once, unless a rate or a limit is given.
func (s *Store) Purge(ctx context.Context, c outbox.Change) (outbox.ChangeReport, error) {
	return s.change(ctx, "purge", s.sql.purge, c)
}

// Replay delivers archived messages again; see outbox.Operator.
func (s *Store) Replay(ctx context.Context, c outbox.Change) (outbox.ChangeReport, error) {
	return s.change(ctx, "replay", s.sql.replay, c)
}

// changeBatch is how many messages a transaction changes at most: the claim lock is held for as long.
const changeBatch = 500

// change makes a change batch by batch. A batch that has begun is not interrupted, or the operation's id would be lost
// with its answer; a done context ends the change after it.
func (s *Store) change(ctx context.Context, verb string, st statement, c outbox.Change) (outbox.ChangeReport, error) {
	if err := c.Check(verb); err != nil {
		return outbox.ChangeReport{}, err
	}
	if c.Continue > 0 {
		if err := s.operationRate(ctx, verb, &c); err != nil {
			return outbox.ChangeReport{}, err
		}
	}
	report := outbox.ChangeReport{Operation: c.Continue, More: true}
	for {
		if ctx.Err() != nil {
			return report, fmt.Errorf("%s: %w", verb, context.Cause(ctx))
		}
		begin, before := time.Now(), report.Changed
		next, err := s.changeOnce(ctx, st, c, report.Operation)
		if err != nil {
			return report, s.explain(verb, err)
		}
		report = next
		if c.Progress != nil {
			c.Progress(report)
		}
		if !report.More || c.DryRun {
			return report, nil
		}
		pause(ctx, begin, report.Changed-before, c.Rate)
	}
}

// operationRate looks an operation up, and takes its rate over unless one is given.
func (s *Store) operationRate(ctx context.Context, verb string, c *outbox.Change) error {
	var rate int
	err := s.pool.QueryRow(ctx, render(operationRateSQL, s.cfg.Schema), pgx.QueryExecModeExec, c.Continue, verb).Scan(&rate)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return refuse("Continue", fmt.Sprint(c.Continue), "must be an operation of "+verb)
	case err != nil:
		return s.explain(verb, err)
	case c.Rate == 0:
		c.Rate = rate
	}
	return nil
}

// pause keeps to a rate of messages a second.
func pause(ctx context.Context, begin time.Time, changed int64, rate int) {
	if rate == 0 || changed <= 0 {
		return
	}
	timer := time.NewTimer(time.Until(begin.Add(time.Duration(changed) * time.Second / time.Duration(rate))))
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

func (s *Store) changeOnce(ctx context.Context, st statement, c outbox.Change, operation int64) (r outbox.ChangeReport, err error) {
	batch := changeBatch
	if c.Rate > 0 {
		batch = min(batch, max(c.Rate/10, 1)) // ten steps a second
	}
	args := []any{idsOrNull(c.IDs), optional(c.Topic), optional(c.Key), optional(c.Class), optional(c.Text), optional(c.OlderThan),
		optional(c.NewerThan), c.All, optional(c.Limit), optional(c.Actor), optional(c.Reason), c.DryRun, optional(c.Rate), batch, optional(operation)}
	switch st.file {
	case "redrive", "retry":
		args = append(args, optional(c.BoundTo), c.ByRoute)
	case "discard":
		args = append(args, statesOrNull(c.States), optional(c.BoundTo))
	case "purge":
		args = append(args, statesOrNull(c.States), c.Holding)
	case "replay":
		args = append(args, statesOrNull(c.States), optional(c.Destination))
	}
	return s.report(ctx, call{st, args, nil})
}

// report runs a call that answers with the state of an operation, beyond the end of the context.
func (s *Store) report(ctx context.Context, c call) (r outbox.ChangeReport, err error) {
	const patience = time.Minute // above the deadlines on the server
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer cancel()
	c.read = func(rows pgx.Rows) error {
		var id *int64
		if err := rows.Scan(&id, &r.Matched, &r.Changed, &r.Held, &r.NoPayload, &r.More); err != nil {
			return err
		}
		if id != nil {
			r.Operation = *id
		}
		return nil
	}
	err = errors.Join(s.run(ctx, s.transactionWithin(operatorLockDeadline, c))...)
	return r, err
}

// operatorLockDeadline is long: an operator rather waits than types the command again.
const operatorLockDeadline = "10s"

// awaitDiscard waits until relays have let go of what they held. The messages are discarded with the settlement
// that lets them go, so it does not matter how often this looks.
func (s *Store) awaitDiscard(ctx context.Context, report outbox.ChangeReport, c outbox.Change) (outbox.ChangeReport, error) {
	const interval = 100 * time.Millisecond
	deadline := time.Now().Add(c.Wait)
	for {
		left := max(time.Until(deadline), 0)
		if ctx.Err() != nil {
			left = 0
		}
		next, err := s.report(ctx, call{s.sql.discardHeld, []any{report.Operation, left}, nil})
		if err != nil {
			return report, s.explain("discard", err)
		}
		report = next
		report.More, report.Waiting = false, next.More
		if c.Progress != nil {
			c.Progress(report)
		}
		switch {
		case !report.Waiting && ctx.Err() != nil && report.Held > 0:
			return report, fmt.Errorf("discard: %w", context.Cause(ctx))
		case !report.Waiting:
			return report, nil
		}
		select {
		case <-ctx.Done():
		case <-time.After(interval):
		}
	}
}

// Pause keeps relays from claiming; see outbox.Operator.
func (s *Store) Pause(ctx context.Context, p outbox.Pause) (outbox.ChangeReport, error) {
	return s.control(ctx, "pause", s.sql.pause, p)
}

// Resume ends a pause; see outbox.Operator.
func (s *Store) Resume(ctx context.Context, p outbox.Pause) (outbox.ChangeReport, error) {
	return s.control(ctx, "resume", s.sql.resume, p)
}

func (s *Store) control(ctx context.Context, verb string, st statement, p outbox.Pause) (r outbox.ChangeReport, err error) {
	if err := p.Check(); err != nil {
		return r, err
	}
	read := func(rows pgx.Rows) error {
		var id *int64
		if err := rows.Scan(&id); err != nil || id == nil {
			return err
		}
		r = outbox.ChangeReport{Operation: *id, Matched: 1, Changed: 1}
		return nil
	}
	args := []any{optional(p.Topic), optional(p.Destination), optional(p.Actor), optional(p.Reason)}
	errs := s.run(ctx, s.transactionWithin(operatorLockDeadline, call{st, args, read}))
	if err := errors.Join(errs...); err != nil {
		return outbox.ChangeReport{}, s.explain(verb, err)
	}
	return r, nil
}

// optional is null for a zero value.
func optional[T comparable](v T) any {
	var zero T
	if v == zero {
		return nil
	}
	return v
}

func idsOrNull(ids []outbox.ID) any {
	if ids == nil {
		return nil
	}
	return ids
}

func statesOrNull(states []outbox.State) any {
	if states == nil {
		return nil
	}
	texts := make([]string, len(states))
	for i, s := range states {
		texts[i] = string(s)
	}
	return texts
}
