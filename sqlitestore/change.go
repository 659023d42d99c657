package sqlitestore

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/outboxrelay/outbox"
)

// Redrive delivers dead messages again; see outbox.Operator.
func (s *Store) Redrive(ctx context.Context, c outbox.Change) (outbox.ChangeReport, error) {
	return s.change(ctx, "redrive", c)
}

// Retry makes messages due that wait for another attempt; see outbox.Operator.
func (s *Store) Retry(ctx context.Context, c outbox.Change) (outbox.ChangeReport, error) {
	return s.change(ctx, "retry", c)
}

// changeBatch is how many messages a transaction changes at most: nobody else writes as long.
const changeBatch = 500

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

// operation is a change as it is stored.
type operation struct {
	verb   string
	filter filter
	cursor cursor
	rate   int
	state  string
	report outbox.ChangeReport
}

// filter says which messages; ages as times, so that it means the same when it is gone on with.
type filter struct {
	IDs    []outbox.ID `json:"ids,omitempty"`
	Topic  string      `json:"topic,omitempty"`
	Key    string      `json:"key,omitempty"`
	Class  string      `json:"class,omitempty"`
	Text   string      `json:"text,omitempty"`
	Before int64       `json:"before,omitempty"`
	After  int64       `json:"after,omitempty"`
	Limit  int64       `json:"limit,omitempty"`
}

// cursor is how far an operation has come: messages of these states, the first one up to a seq, were looked at.
type cursor struct {
	States []string `json:"states"`
	Seq    int64    `json:"seq"`
	Until  int64    `json:"until"`
}

var statesOf = map[string][]string{"redrive": {"dead"}, "retry": {"waiting"}, "discard": {"ready", "waiting", "dead"}}

func newOperation(t *tx, verb string, c outbox.Change) (*operation, error) {
	o := &operation{verb: verb, rate: c.Rate, state: "running", cursor: cursor{States: statesOf[verb]},
		filter: filter{IDs: c.IDs, Topic: c.Topic, Key: c.Key, Class: c.Class, Text: c.Text, Limit: c.Limit}}
	if c.OlderThan > 0 {
		o.filter.Before = t.now - milliseconds(c.OlderThan)
	}
	if c.NewerThan > 0 {
		o.filter.After = t.now - milliseconds(c.NewerThan)
	}
	return o, t.row("last_seq", nil, &o.cursor.Until)
}

func (t *tx) operation(verb string, id int64) (*operation, error) {
	o := &operation{verb: verb, report: outbox.ChangeReport{Operation: id}}
	var filterText, cursorText string
	err := t.row("change_read", []any{id, verb}, &filterText, &cursorText, &o.rate, &o.state, &o.report.Matched, &o.report.Changed, &o.report.Held)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, refuse("Continue", fmt.Sprint(id), "must be an operation of "+verb)
	}
	if err != nil {
		return nil, err
	}
	return o, errors.Join(json.Unmarshal([]byte(filterText), &o.filter), json.Unmarshal([]byte(cursorText), &o.cursor))
}

// changeOnce begins an operation, or goes on with it, by one batch.
func (s *Store) changeOnce(ctx context.Context, verb string, c outbox.Change, id int64) (report outbox.ChangeReport, rate int, err error) {
	err = s.write(ctx, func(t *tx) error {
		var o *operation
		if id == 0 {
			if o, err = newOperation(t, verb, c); err != nil {
				return err
			}
			err = t.row("change_begin", []any{verb, jsonText(o.filter), jsonText(o.cursor), o.rate, actor(c.Actor), c.Reason, t.now}, &o.report.Operation)
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

// step changes one batch.
func (o *operation) step(t *tx, batch int, wait time.Duration) error {
	before := o.report.Changed
	if o.filter.Limit > 0 {
		batch = int(min(int64(batch), o.filter.Limit-o.report.Changed))
	}
	free, held, err := o.next(t, batch)
	if err != nil {
		return err
	}
	o.report.Matched += int64(len(free) + len(held))
	n := int64(len(free))
	switch o.verb {
	case "redrive":
		if _, err = t.exec("redrive", array(free), t.now); err == nil {
			_, err = t.exec("delete_dead", array(free))
		}
	case "retry":
		n, err = t.exec("retry", array(free), t.now)
	case "discard":
		o.report.Held += int64(len(held))
		if err = t.discard(free); err == nil && wait > 0 && len(held) > 0 {
			_, err = t.exec("await", array(held), o.report.Operation, t.now+milliseconds(wait))
		}
	}
	if err != nil {
		return err
	}
	o.report.Changed += n
	o.report.More = len(o.cursor.States) > 0 && (o.filter.Limit == 0 || o.report.Changed < o.filter.Limit)
	if !o.report.More {
		o.state = "done"
	}
	if _, err := t.exec("change_save", o.report.Operation, jsonText(o.cursor), o.state, o.report.Matched, o.report.Changed, o.report.Held, t.now); err != nil {
		return err
	}
	if o.report.Changed > before {
		_, err = t.exec("note_change")
	}
	return err
}

// next finds the next messages that are meant, at most so many, and moves the cursor behind them.
func (o *operation) next(t *tx, most int) (free, held []int64, err error) {
	topics, err := o.topics(t)
	if err != nil {
		return nil, nil, err
	}
	for len(o.cursor.States) > 0 && len(free)+len(held) == 0 {
		state := o.cursor.States[0]
		var end sql.NullInt64
		var rows int
		if err := t.row("change_page", []any{state, o.cursor.Seq, o.cursor.Until}, &end, &rows); err != nil {
			return nil, nil, err
		}
		if rows == 0 {
			o.cursor.States, o.cursor.Seq = o.cursor.States[1:], 0
			continue
		}
		last := int64(0)
		err := t.rows("change_match", o.matchArgs(t, state, end.Int64, topics, most), func(rows *sql.Rows) error {
			var isHeld bool
			err := rows.Scan(&last, &isHeld)
			if isHeld && o.verb == "discard" {
				held = append(held, last)
			} else {
				free = append(free, last)
			}
			return err
		})
		if err != nil {
			return nil, nil, err
		}
		o.cursor.Seq = end.Int64
		if len(free)+len(held) == most {
			o.cursor.Seq = last
		}
	}
	return free, held, nil
}

func (o *operation) matchArgs(t *tx, state string, end int64, topics any, most int) []any {
	var ids any
	if o.filter.IDs != nil {
		ids = array(o.filter.IDs)
	}
	return []any{state, o.cursor.Seq, end, ids, topics, orNull(o.filter.Key), orNull(o.filter.Class), orNull(o.filter.Text),
		orNull(o.filter.Before), orNull(o.filter.After), o.verb, t.now, most}
}

// topics are those that the filter's pattern covers; null: any.
func (o *operation) topics(t *tx) (any, error) {
	if o.filter.Topic == "" {
		return nil, nil
	}
	all, err := t.topicsWhere(func(topic string) bool { return outbox.MatchTopic(o.filter.Topic, topic) })
	return array(all), err
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
		for len(o.cursor.States) > 0 && report.Matched < limit {
			free, held, err := o.next(t, int(limit-report.Matched))
			if err != nil {
				return err
			}
			report.Matched += int64(len(free) + len(held))
			report.Held += int64(len(held))
		}
		report.More = len(o.cursor.States) > 0 && c.Limit == 0 && report.Matched >= bound
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

func jsonText(v any) string {
	text, _ := json.Marshal(v) // texts and numbers do not fail
	return string(text)
}
