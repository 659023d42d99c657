package sqlitestore

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/outboxrelay/outbox"
	"github.com/outboxrelay/outbox/internal/listing"
)

// Redrive delivers dead messages again; see outbox.Operator.
func (s *Store) Redrive(ctx context.Context, c outbox.Change) (outbox.ChangeReport, error) {
	return s.change(ctx, "redrive", c)
}

// Retry makes messages due that wait for another attempt; see outbox.Operator.
func (s *Store) Retry(ctx context.Context, c outbox.Change) (outbox.ChangeReport, error) {
	return s.change(ctx, "retry", c)
}

// Purge forgets messages that have ended, and dead ones; see outbox.Archivist. The room that they took in the file is used for
// others; only VACUUM makes the file smaller.
func (s *Store) Purge(ctx context.Context, c outbox.Change) (outbox.ChangeReport, error) {
	return s.change(ctx, "purge", c)
}

// Replay delivers archived messages again; see outbox.Archivist.
func (s *Store) Replay(ctx context.Context, c outbox.Change) (outbox.ChangeReport, error) {
	return s.change(ctx, "replay", c)
}

const (
	// changeBatch is how many messages a transaction changes at most, and changeBound how many it looks at: nobody else writes
	// as long.
	changeBatch = 500
	changeBound = 10_000
)

// change makes a change batch by batch. A batch that has begun is not interrupted; a done context ends the change after it.
func (s *Store) change(ctx context.Context, verb string, c outbox.Change) (report outbox.ChangeReport, err error) {
	if err := c.Check(verb); err != nil {
		return report, err
	}
	if c.DryRun {
		return s.dryRun(ctx, verb, c)
	}
	report = outbox.ChangeReport{Operation: c.Continue, More: true}
	for {
		if ctx.Err() != nil {
			return report, fmt.Errorf("%s: %w", verb, context.Cause(ctx))
		}
		begin, before := time.Now(), report.Changed
		next, rate, err := s.changeOnce(context.WithoutCancel(ctx), verb, c, report.Operation)
		if err != nil {
			return report, s.explain(verb, err)
		}
		report = next
		if c.Progress != nil {
			c.Progress(report)
		}
		if !report.More {
			return report, nil
		}
		pace(ctx, begin, report.Changed-before, rate)
	}
}

// pace keeps to a rate of messages a second.
func pace(ctx context.Context, begin time.Time, changed int64, rate int) {
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

// changeOnce begins an operation, or goes on with it, by one batch.
func (s *Store) changeOnce(ctx context.Context, verb string, c outbox.Change, id int64) (report outbox.ChangeReport, rate int, err error) {
	err = s.ending(ctx, func(t *tx) (err error) {
		var o *operation
		if id == 0 {
			if o, err = newOperation(t, verb, c); err != nil {
				return err
			}
			err = t.row("change_begin", []any{verb, jsonText(o.filter), jsonText(o.cursor), o.rate, o.actor, o.reason, t.now}, &o.report.Operation)
		} else {
			o, err = t.operation(verb, id)
		}
		if err != nil {
			return err
		}
		if rate = c.Rate; rate == 0 {
			rate = o.rate
		}
		if o.state == "running" {
			batch := changeBatch
			if rate > 0 {
				batch = min(batch, max(rate/10, 1)) // ten steps a second
			}
			if err := o.step(t, batch, c.Wait); err != nil {
				return err
			}
		}
		report = o.report
		return nil
	})
	return report, rate, err
}

// dryRun counts, up to a bound.
func (s *Store) dryRun(ctx context.Context, verb string, c outbox.Change) (report outbox.ChangeReport, err error) {
	const bound = 100_000
	limit := int64(bound)
	if c.Limit > 0 {
		limit = min(limit, c.Limit)
	}
	err = s.read(ctx, func(t *tx) error {
		o, err := newOperation(t, verb, c)
		if err != nil {
			return err
		}
		for len(o.cursor.Tables) > 0 && report.Matched < limit {
			b, err := o.next(t, int(limit-report.Matched))
			if err != nil {
				return err
			}
			report.Matched += b.matched()
			report.Held += int64(len(b.held))
			report.NoPayload += b.bare
		}
		report.More = len(o.cursor.Tables) > 0 && c.Limit == 0 && report.Matched >= bound
		return nil
	})
	if err != nil {
		return outbox.ChangeReport{}, s.explain(verb, err)
	}
	if c.Progress != nil {
		c.Progress(report)
	}
	return report, nil
}

// operation is a change as it is stored.
type operation struct {
	verb          string
	filter        filter
	cursor        cursor
	rate          int
	state         string
	actor, reason string
	report        outbox.ChangeReport
}

// cursor is how far an operation has come: the tables that are left, and the place in the first one. Messages up to a seq are
// meant, those that were there when it began.
type cursor struct {
	Tables     []string `json:"tables"`
	Seq        int64    `json:"seq"`
	Generation int      `json:"generation,omitempty"`
	Until      int64    `json:"until"`
}

// statesOf are those in which each change finds messages unless its filter says.
var statesOf = map[string][]outbox.State{
	"redrive": {outbox.StateDead},
	"retry":   {outbox.StateWaiting},
	"discard": {outbox.StateReady, outbox.StateWaiting, outbox.StateDead},
	"purge":   {outbox.StateDead, outbox.StateDelivered, outbox.StateDropped, outbox.StateExpired, outbox.StateDiscarded},
	"replay":  {outbox.StateDelivered},
}

func newOperation(t *tx, verb string, c outbox.Change) (*operation, error) {
	o := &operation{verb: verb, rate: c.Rate, state: "running", actor: actor(c.Actor), reason: c.Reason, filter: newFilter(t.now, c.Filter)}
	o.filter.Destination, o.filter.Holding, o.filter.ByRoute = c.Destination, c.Holding, c.ByRoute
	states := c.States
	if states == nil {
		states = statesOf[verb]
	}
	if verb == "replay" {
		o.filter.States = states
	}
	o.cursor.Tables = listing.Tables(states, c.BoundTo)
	return o, t.row("last_seq", nil, &o.cursor.Until)
}

func (t *tx) operation(verb string, id int64) (*operation, error) {
	o := &operation{verb: verb, report: outbox.ChangeReport{Operation: id}}
	r := &o.report
	var filterText, cursorText string
	err := t.row("change_read", []any{id, verb}, &filterText, &cursorText, &o.rate, &o.state, &r.Matched, &r.Changed, &r.Held, &r.NoPayload,
		&o.actor, &o.reason)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, refuse("Continue", fmt.Sprint(id), "must be an operation of "+verb)
	}
	if err != nil {
		return nil, err
	}
	return o, errors.Join(json.Unmarshal([]byte(filterText), &o.filter), json.Unmarshal([]byte(cursorText), &o.cursor))
}

// step changes one batch.
func (o *operation) step(t *tx, most int, wait time.Duration) error {
	if o.filter.Limit > 0 {
		most = int(min(int64(most), o.filter.Limit-o.report.Changed))
	}
	b, err := o.next(t, most)
	if err != nil {
		return err
	}
	changed, err := o.apply(t, b)
	if err != nil {
		return err
	}
	if o.verb == "discard" && wait > 0 && len(b.held) > 0 {
		if _, err := t.exec("await", array(b.held), o.report.Operation, t.now+milliseconds(wait)); err != nil {
			return err
		}
	}
	r := &o.report
	r.Matched += b.matched()
	r.Changed += changed
	r.Held += int64(len(b.held))
	r.NoPayload += b.bare
	if r.More = len(o.cursor.Tables) > 0 && (o.filter.Limit == 0 || r.Changed < o.filter.Limit); !r.More {
		o.state = "done"
	}
	if _, err := t.exec("change_save", r.Operation, jsonText(o.cursor), o.state, r.Matched, r.Changed, r.Held, r.NoPayload, t.now); err != nil {
		return err
	}
	if changed > 0 && b.table != "archive" || o.verb == "replay" && changed > 0 {
		_, err = t.exec("note_change")
	}
	return err
}

// batch is what a step of an operation has found, by what may become of it.
type batch struct {
	table string
	free  []storedRow
	held  []int64 // left alone
	bare  int64   // kept without payload, and left alone
}

func (b *batch) matched() int64 { return int64(len(b.free)+len(b.held)) + b.bare }

// next finds the next messages that are meant, at most so many, and moves the cursor behind them. It ends where it has found
// some, or has looked at changeBound.
func (o *operation) next(t *tx, most int) (*batch, error) {
	means := o.filter.means
	if o.verb == "retry" {
		means = func(r *storedRow) bool { return o.filter.means(r) && o.mayRetry(t, r) }
	}
	for len(o.cursor.Tables) > 0 {
		at := listing.Place{Table: o.cursor.Tables[0], Seq: o.cursor.Seq, Generation: o.cursor.Generation}
		found, end, err := t.look(&o.filter, means, &at, o.cursor.Until, most, changeBound)
		if err != nil {
			return nil, err
		}
		o.cursor.Seq, o.cursor.Generation = at.Seq, at.Generation
		if end {
			o.cursor.Tables, o.cursor.Seq, o.cursor.Generation = o.cursor.Tables[1:], 0, 0
		}
		if len(found) > 0 || !end {
			return o.sort(t, at.Table, found)
		}
	}
	return &batch{}, nil
}

// mayRetry: a scheduled message keeps its time unless it is named. One that gets another destination may be due long since.
func (o *operation) mayRetry(t *tx, r *storedRow) bool {
	return o.filter.ByRoute || r.due > t.now && (r.attempts > 0 || o.filter.IDs != nil)
}

// sort tells what may be changed from what is left alone.
func (o *operation) sort(t *tx, table string, found []storedRow) (*batch, error) {
	b := &batch{table: table, free: found}
	switch {
	case len(found) == 0:
	case o.verb == "replay":
		return b, o.sortReplay(t, b)
	case o.verb == "discard" || o.verb == "retry" && o.filter.ByRoute:
		held := map[int64]bool{}
		err := t.rows("live_held", []any{array(seqsOf(found))}, func(rows *sql.Rows) error {
			var seq int64
			err := rows.Scan(&seq)
			held[seq] = true
			return err
		})
		b.leave(func(r *storedRow) bool { return held[r.seq] })
		return b, err
	case o.verb == "redrive" && !o.filter.ByRoute:
		f, err := t.fleet()
		b.leave(func(r *storedRow) bool {
			return r.destination != "" && len(f.relays) > 0 && len(f.destinationsOf(r.topic, r.destination)) == 0
		})
		return b, err
	case o.verb == "purge" && table == "dead" && !o.filter.Holding:
		b.leave(func(r *storedRow) bool { return r.holds })
	}
	return b, nil
}

// leave leaves messages alone.
func (b *batch) leave(held func(r *storedRow) bool) {
	found := b.free
	b.free = nil
	for i := range found {
		if held(&found[i]) {
			b.held = append(b.held, found[i].seq)
		} else {
			b.free = append(b.free, found[i])
		}
	}
}

// apply changes what may be changed, and returns how many messages that were.
func (o *operation) apply(t *tx, b *batch) (int64, error) {
	n := int64(len(b.free))
	if n == 0 {
		return 0, nil
	}
	seqs := array(seqsOf(b.free))
	var err error
	switch o.verb {
	case "redrive":
		if _, err = t.exec("redrive", seqs, t.now, o.filter.ByRoute); err == nil {
			_, err = t.exec("delete_dead", seqs)
		}
	case "retry":
		if o.filter.ByRoute {
			return n, t.reroute(seqsOf(b.free))
		}
		return t.exec("retry", seqs, t.now)
	case "replay":
		return t.exec("replay", array(refsOf(b.free)), o.filter.Destination, t.now)
	case "purge":
		if b.table == "archive" {
			return t.exec("delete_archived", array(refsOf(b.free)))
		}
		return t.exec("delete_dead", seqs)
	case "discard":
		err = t.discard(discards(seqsOf(b.free), o.actor, o.reason))
	}
	return n, err
}

// reroute lets the routes decide again where waiting messages go that no live relay holds. They are due now, and hold their key from
// this moment on wherever they may go. What relays died with stays a suspect, though no claim lists it any more.
func (t *tx) reroute(seqs []int64) error {
	if _, err := t.exec("reroute", array(seqs), t.now); err != nil {
		return err
	}
	return t.unlist(seqs)
}

func seqsOf(rows []storedRow) []int64 {
	seqs := make([]int64, len(rows))
	for i := range rows {
		seqs[i] = rows[i].seq
	}
	return seqs
}

func jsonText(v any) string {
	text, _ := json.Marshal(v) // texts, numbers and times of four-digit years do not fail
	return string(text)
}
