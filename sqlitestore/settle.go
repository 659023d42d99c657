package sqlitestore

import (
	"context"
	"database/sql"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/outboxrelay/outbox"
)

// maxTextBytes is what is kept of an error's text.
const maxTextBytes = 2000

// Settle ends or moves claimed messages, all in one transaction; see outbox.Store.
func (s *Store) Settle(ctx context.Context, outcomes []outbox.Outcome) (answers []outbox.Settled, err error) {
	for _, o := range outcomes {
		if o.Kind < outbox.Delivered || o.Kind > outbox.GivenBack {
			return nil, fmt.Errorf("settle message %d: unknown outcome %d", o.Seq, o.Kind)
		}
	}
	var st *settlement
	err = s.ending(ctx, func(t *tx) error {
		st = &settlement{t: t, outcomes: outcomes, keeps: s.cfg.keeps(), freed: map[string][]string{}}
		return st.run()
	})
	if err != nil {
		return nil, s.explain("settle", err)
	}
	for destination, keys := range st.freed {
		s.skip(destination, keys)
	}
	return st.answers, nil
}

// settlement is one call of Settle.
type settlement struct {
	t        *tx
	outcomes []outbox.Outcome
	keeps    string // what is kept of those that end
	answers  []outbox.Settled
	freed    map[string][]string // per destination, keys that a message held through its claim

	ended         []ending
	unlisted      []int64
	retried, died []failureRow
	back          map[int64][]int64 // per claim
	claims        []int64
	gone          int64 // messages that have left the ready ones
}

// failureRow is a failed attempt as an argument.
type failureRow struct {
	Seq      int64  `json:"seq"`
	Attempts int    `json:"attempts"`
	Lapses   int    `json:"lapses"`
	Delay    int64  `json:"delay"`
	Class    string `json:"class"`
	Text     string `json:"text"`
	Holds    bool   `json:"holds"`
}

func (st *settlement) run() error {
	if err := st.look(); err != nil {
		return err
	}
	if err := st.t.keep(st.keeps, st.ended); err != nil {
		return err
	}
	ended, died := endedSeqs(st.ended), failedSeqs(st.died)
	moved := slices.Concat(ended, failedSeqs(st.retried), died)
	for _, step := range []struct {
		query string
		args  []any
		any   bool
	}{
		{"settle_retry_waiting", []any{array(st.retried), st.t.now}, len(st.retried) > 0},
		{"settle_retry_message", []any{array(st.retried), st.t.now}, len(st.retried) > 0},
		{"settle_die_message", []any{array(st.died), st.t.now}, len(st.died) > 0},
		{"settle_die_waiting", []any{array(st.died), st.t.now}, len(st.died) > 0},
		{"settle_end_message", []any{array(moved)}, len(moved) > 0},
		{"settle_end_waiting", []any{array(slices.Concat(ended, died))}, len(ended)+len(died) > 0},
		{"settle_unlist", []any{array(st.unlisted)}, len(st.unlisted) > 0},
	} {
		if !step.any {
			continue
		}
		n, err := st.t.exec(step.query, step.args...)
		if err != nil {
			return err
		}
		if step.query == "settle_end_message" {
			st.gone = n
		}
	}
	if err := st.giveBack(); err != nil {
		return err
	}
	if _, err := st.t.exec("delete_empty_claims", array(st.claims)); err != nil {
		return err
	}
	if err := st.honour(); err != nil {
		return err
	}
	wakes := 0
	if len(st.back)+len(st.freed) > 0 {
		wakes = 1
	}
	_, err := st.t.exec("settle_count", st.gone, wakes)
	return err
}

// look answers every outcome and sorts those that take effect.
func (st *settlement) look() error {
	type question struct {
		Claim int64  `json:"claim"`
		Relay string `json:"relay"`
		Token string `json:"token"`
		Seq   int64  `json:"seq"`
	}
	questions := make([]question, len(st.outcomes))
	for i, o := range st.outcomes {
		questions[i] = question{o.Claim.ID, o.Claim.Relay.String(), o.Claim.Token.String(), o.Seq}
	}
	done := map[int64]bool{}
	st.answers = make([]outbox.Settled, len(st.outcomes))
	return st.t.rows("settle_look", []any{array(questions)}, func(rows *sql.Rows) error {
		var i int
		var owns, lists, gone bool
		var key, destination string
		if err := rows.Scan(&i, &owns, &lists, &gone, &key, &destination); err != nil {
			return err
		}
		o := &st.outcomes[i]
		switch {
		case done[o.Seq], gone, owns && !lists:
			st.answers[i] = outbox.SettledBefore
		case !owns:
			st.answers[i] = outbox.SettledFenced
		default:
			done[o.Seq] = true
			st.answers[i] = outbox.SettledNow
			st.sort(o, destination)
			if key != "" {
				st.freed[destination] = append(st.freed[destination], key)
			}
		}
		return nil
	})
}

// states are those of the outcomes that end a message.
var states = map[outbox.OutcomeKind]outbox.State{
	outbox.Delivered: outbox.StateDelivered, outbox.Dropped: outbox.StateDropped, outbox.Expired: outbox.StateExpired,
}

func (st *settlement) sort(o *outbox.Outcome, destination string) {
	if !slices.Contains(st.claims, o.Claim.ID) {
		st.claims = append(st.claims, o.Claim.ID)
	}
	f := failureRow{Seq: o.Seq, Attempts: o.Attempts, Delay: milliseconds(o.Delay), Class: storable(o.Class), Text: storable(o.Text), Holds: o.Holds}
	if o.Class == outbox.ClassCrash {
		f.Lapses = outbox.SuspectLapses
	}
	switch o.Kind {
	case outbox.Delivered, outbox.Dropped, outbox.Expired:
		st.ended = append(st.ended, ending{Seq: o.Seq, Outcome: states[o.Kind], Destination: destination, Detail: storable(o.Text)})
	case outbox.Retried:
		st.retried = append(st.retried, f)
	case outbox.Died:
		st.died = append(st.died, f)
	case outbox.Unlisted: // ready again; one that waited holds its key since its first claim
	case outbox.GivenBack:
		if st.back == nil {
			st.back = map[int64][]int64{}
		}
		st.back[o.Claim.ID] = append(st.back[o.Claim.ID], o.Seq)
		return
	}
	st.unlisted = append(st.unlisted, o.Seq)
}

// giveBack moves messages to claims without a relay. The rest of theirs may still be in delivery.
func (st *settlement) giveBack() error {
	for _, from := range slices.Sorted(maps.Keys(st.back)) {
		var to int64
		if err := st.t.row("settle_give_back_claim", []any{from, st.t.now}, &to); err != nil {
			return err
		}
		if _, err := st.t.exec("settle_give_back", array(st.back[from]), to); err != nil {
			return err
		}
	}
	return nil
}

// honour discards what was settled without an end and an operator waits for.
func (st *settlement) honour() error {
	settled := slices.Clone(st.unlisted)
	for _, seqs := range st.back {
		settled = append(settled, seqs...)
	}
	var awaited []ending
	seen := map[int64]bool{} // several may wait for one
	err := st.t.rows("settle_awaited", []any{array(settled), st.t.now}, func(rows *sql.Rows) error {
		e := ending{Outcome: outbox.StateDiscarded}
		err := rows.Scan(&e.Seq, &e.Actor, &e.Detail)
		if !seen[e.Seq] {
			seen[e.Seq] = true
			awaited = append(awaited, e)
		}
		return err
	})
	if err != nil || len(awaited) == 0 {
		return err
	}
	return st.t.discardAwaited(awaited)
}

func failedSeqs(rows []failureRow) (seqs []int64) {
	for _, r := range rows {
		seqs = append(seqs, r.Seq)
	}
	return seqs
}

func endedSeqs(list []ending) (seqs []int64) {
	for _, e := range list {
		seqs = append(seqs, e.Seq)
	}
	return seqs
}

// storable makes a text valid UTF-8 without NUL and cuts it between characters.
func storable(text string) string {
	text = strings.ReplaceAll(strings.ToValidUTF8(text, "\uFFFD"), "\x00", "\uFFFD")
	if len(text) <= maxTextBytes {
		return text
	}
	end := maxTextBytes
	for !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end]
}
