package sqlitestore

import (
	"database/sql"

	"github.com/outboxrelay/outbox/internal/listing"
)

// look finds the next messages of a table that a filter means, from a place on, which it moves: at most so many, and it
// looks at no more than bound. The end is where nothing is left behind them.
func (t *tx) look(f *filter, means func(*storedRow) bool, at *listing.Place, until int64, most, bound int) (found []storedRow, end bool, err error) {
	window := min(max(most, 100), bound)
	for looked := 0; ; window = min(4*window, bound-looked) {
		rows, err := t.walk(f, at, until, window)
		if err != nil {
			return nil, false, err
		}
		for i := range rows {
			if len(found) == most {
				return found, false, nil
			}
			at.Seq, at.Generation = rows[i].seq, rows[i].generation
			if means(&rows[i]) {
				found = append(found, rows[i])
			}
		}
		if len(rows) < window {
			return found, true, nil
		}
		if looked += len(rows); looked >= bound || len(found) == most {
			return found, false, nil
		}
	}
}

// walk reads what is stored behind a place, by the index that suits the filter.
func (t *tx) walk(f *filter, at *listing.Place, until int64, limit int) (list []storedRow, err error) {
	query, args := "walk", []any{at.Table, at.Seq, at.Generation, until, limit}
	switch {
	case f.IDs != nil:
		query, args = "walk_ids", append(args, array(f.IDs))
	case f.Key != "" && at.Table != "archive":
		query, args = "walk_key", append(args, f.Key)
	}
	list = make([]storedRow, 0, min(limit, 1000))
	err = t.rows(query, args, func(rows *sql.Rows) error {
		var r storedRow
		err := rows.Scan(&r.seq, &r.generation, &r.topic, &r.key, &r.state, &r.holds, &r.attempts, &r.class, &r.text, &r.due, &r.since, &r.destination)
		list = append(list, r)
		return err
	})
	return list, err
}
