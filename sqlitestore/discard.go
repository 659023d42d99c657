package sqlitestore

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/outboxrelay/outbox"
)

// Discard removes messages; see outbox.Operator.
func (s *Store) Discard(ctx context.Context, c outbox.Change) (outbox.ChangeReport, error) {
	if c.Reason == "" && c.Continue == 0 && !c.DryRun {
		return outbox.ChangeReport{}, refuse("Reason", "", "must say why the messages are discarded")
	}
	report, err := s.change(ctx, "discard", c)
	if err != nil || report.Held == 0 || c.Wait == 0 || c.DryRun {
		return report, err
	}
	return s.awaitDiscard(ctx, report, c)
}

// discards are messages that an operator discards.
func discards(seqs []int64, actor, reason string) []ending {
	list := make([]ending, len(seqs))
	for i, seq := range seqs {
		list[i] = ending{Seq: seq, Outcome: outbox.StateDiscarded, Detail: reason, Actor: actor}
	}
	return list
}

// discard removes messages that no live relay holds, and keeps them if relays keep what has ended. Whoever lists them is
// fenced, as by a takeover.
func (t *tx) discard(list []ending) error {
	var mode string
	if err := t.row("archive_mode", nil, &mode); err != nil {
		return err
	}
	if err := t.keep(mode, list); err != nil {
		return err
	}
	seqs := endedSeqs(list)
	if err := t.unlist(seqs); err != nil {
		return err
	}
	return t.execAll([]string{"settle_end_message", "settle_end_waiting", "delete_dead", "forget_awaited"}, array(seqs))
}

// unlist takes messages that no live relay holds from the claims that list them, and fences whoever made those.
func (t *tx) unlist(seqs []int64) error {
	var claims []int64
	err := t.rows("claims_of", []any{array(seqs)}, func(rows *sql.Rows) error {
		var id int64
		err := rows.Scan(&id)
		claims = append(claims, id)
		return err
	})
	if err != nil {
		return err
	}
	if err := t.execAll([]string{"claim_fence", "settle_unlist"}, array(seqs)); err != nil {
		return err
	}
	_, err = t.exec("delete_empty_claims", array(claims))
	return err
}

// discardAwaited discards what operations wait for, and counts it for them.
func (t *tx) discardAwaited(list []ending) error {
	if _, err := t.exec("awaited_discarded", array(endedSeqs(list))); err != nil {
		return err
	}
	if err := t.discard(list); err != nil {
		return err
	}
	_, err := t.exec("note_change")
	return err
}

// awaitDiscard waits until relays have let go of what they held. The messages are discarded with the settlement that lets
// them go, so it does not matter how often this looks.
func (s *Store) awaitDiscard(ctx context.Context, report outbox.ChangeReport, c outbox.Change) (outbox.ChangeReport, error) {
	const interval = 50 * time.Millisecond
	deadline := time.Now().Add(c.Wait)
	for {
		goOn := ctx.Err() == nil && time.Now().Before(deadline)
		var next outbox.ChangeReport
		err := s.ending(context.WithoutCancel(ctx), func(t *tx) (err error) {
			next, err = t.awaited(report.Operation, goOn)
			return err
		})
		if err != nil {
			return report, s.explain("discard", err)
		}
		report = next
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

// awaited discards what nobody holds any more, and goes on waiting for the rest or gives up.
func (t *tx) awaited(id int64, goOn bool) (report outbox.ChangeReport, err error) {
	var gone, free []int64
	waits := false
	err = t.rows("awaited", []any{id}, func(rows *sql.Rows) error {
		var seq int64
		var there, held bool
		err := rows.Scan(&seq, &there, &held)
		switch {
		case !there:
			gone = append(gone, seq)
		case !held:
			free = append(free, seq)
		default:
			waits = true
		}
		return err
	})
	if err != nil {
		return report, err
	}
	if len(free) > 0 {
		o, err := t.operation("discard", id)
		if err != nil {
			return report, err
		}
		if err := t.discardAwaited(discards(free, o.actor, o.reason)); err != nil {
			return report, err
		}
	}
	if _, err := t.exec("awaited_ended", id, len(gone)); err != nil {
		return report, err
	}
	if waits && goOn {
		_, err = t.exec("begin_awaiting", id)
	} else if _, err = t.exec("give_up_awaiting", id); err == nil {
		_, err = t.exec("end_awaiting", id, t.now)
	}
	if err != nil {
		return report, err
	}
	if _, err := t.exec("forget_awaited", array(gone)); err != nil {
		return report, err
	}
	o, err := t.operation("discard", id)
	if err != nil {
		return report, err
	}
	o.report.Waiting = waits && goOn
	return o.report, nil
}
