package sqlitestore

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"fmt"

	"github.com/outboxrelay/outbox"
)

// Operations lists what operators did and are doing; see outbox.Archivist.
func (s *Store) Operations(ctx context.Context, limit int) (list []outbox.Operation, err error) {
	const most = 1000
	if limit = cmp.Or(limit, 100); limit < 1 || limit > most {
		return nil, refuse("limit", fmt.Sprint(limit), fmt.Sprintf("must be 1 to %d", most))
	}
	err = s.read(ctx, func(t *tx) error {
		return t.rows("operations", []any{limit}, func(rows *sql.Rows) error {
			o, err := scanOperation(rows)
			list = append(list, o)
			return err
		})
	})
	if err != nil {
		return nil, s.explain("operations", err)
	}
	return list, nil
}

func scanOperation(rows *sql.Rows) (o outbox.Operation, err error) {
	var text string
	var started, finished int64
	err = rows.Scan(&o.ID, &o.Verb, &o.State, &text, &o.Actor, &o.Reason, &o.Rate, &o.Matched, &o.Changed, &o.Held, &o.NoPayload,
		&started, &finished)
	if err != nil {
		return o, err
	}
	o.StartedAt = timeOf(started)
	if finished > 0 {
		o.FinishedAt = timeOf(finished)
	}
	var f filter
	if err := json.Unmarshal([]byte(text), &f); err != nil {
		return o, fmt.Errorf("filter of operation %d: %w", o.ID, err)
	}
	o.Filter = f.words()
	return o, nil
}
