package pgstore

import (
	"cmp"
	"context"
	_ "embed"
	"encoding/json"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outboxrelay/outbox"
	"github.com/outboxrelay/outbox/internal/listing"
)

var (
	//go:embed queries/list.sql
	listSQL string
	//go:embed queries/show.sql
	showSQL string
)

const (
	listWindow = 20_000  // rows that one query looks at
	listBound  = 100_000 // and a page
)

// List lists messages; see outbox.Catalog.
func (s *Store) List(ctx context.Context, q outbox.ListQuery) (page outbox.ListPage, err error) {
	if err := q.Check(); err != nil {
		return page, err
	}
	q.Limit = cmp.Or(q.Limit, 100)
	if q.States == nil {
		q.States = []outbox.State{outbox.StateReady, outbox.StateWaiting, outbox.StateDead}
	}
	tables := listing.Tables(q.States, q.BoundTo)
	at, err := listing.Parse(q.After, tables)
	if err != nil {
		return page, err
	}
	err = s.inspect(ctx, func(tx pgx.Tx) error {
		for looked := 0; at.Table != "" && looked < listBound && int64(len(page.Messages)) < q.Limit; looked += listWindow {
			if err := s.listPart(ctx, tx, &q, &at, &page); err != nil {
				return err
			}
			if at.Seq < 0 { // the end of the table
				at = listing.Following(tables, at.Table)
			}
		}
		return nil
	})
	page.Next = at.String()
	return page, err
}

// listPart adds what one query finds to the page, and moves the place on; its seq is -1 at the end of the table.
func (s *Store) listPart(ctx context.Context, tx pgx.Tx, q *outbox.ListQuery, at *listing.Place, page *outbox.ListPage) error {
	rows, err := tx.Query(ctx, render(listSQL, s.cfg.Schema), pgx.QueryExecModeExec, at.Table, at.Seq, at.Generation, listWindow,
		q.Limit-int64(len(page.Messages)), optional(q.Topic), optional(q.Key), optional(q.Class), optional(q.Text),
		optional(q.OlderThan), optional(q.NewerThan), statesOrNull(q.States), q.Payload, optional(q.BoundTo))
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		m, id, err := scanMessage(rows)
		switch {
		case err != nil:
			return err
		case id != nil:
			page.Messages = append(page.Messages, m)
		case m.Seq == 0:
			at.Seq = -1
		default:
			at.Seq, at.Generation = m.Seq, m.Generation
		}
	}
	return rows.Err()
}

// scanMessage reads a row of list.sql or show.sql; a row without an id says how far a list has come.
func scanMessage(row pgx.CollectableRow) (m outbox.MessageInfo, id *outbox.ID, err error) {
	var seq *int64
	var topic, key, state, destination, class, text, actor, headers *string
	var generation *int
	var published, available, ended, expires *time.Time
	err = row.Scan(&seq, &id, &topic, &key, &state, &m.InFlight, &m.Holds, &m.Attempts, &generation, &destination, &published, &available,
		&ended, &expires, &class, &text, &actor, &m.NoPayload, &headers, &m.Message.Payload)
	if err != nil {
		return m, nil, err
	}
	m.Seq, m.Generation = orZero(seq), orZero(generation)
	if id == nil {
		return m, nil, nil
	}
	m.Message.ID, m.Message.Topic, m.Message.Key, m.State = *id, *topic, *key, outbox.State(*state)
	m.Destination, m.Class, m.Text, m.Actor = *destination, *class, *text, *actor
	m.PublishedAt, m.AvailableAt, m.EndedAt, m.Message.ExpiresAt = *published, orZero(available), orZero(ended), orZero(expires)
	if headers != nil {
		err = json.Unmarshal([]byte(*headers), &m.Message.Headers)
	}
	return m, id, err
}

// orZero is what a pointer leads to, or zero.
func orZero[T any](p *T) (v T) {
	if p != nil {
		v = *p
	}
	return v
}

// Show tells all that is stored of one message; see outbox.Catalog.
func (s *Store) Show(ctx context.Context, id outbox.ID) (list []outbox.MessageInfo, err error) {
	err = s.inspect(ctx, func(tx pgx.Tx) error {
		seq, err := s.subject(ctx, tx, outbox.WhyQuery{ID: id})
		if err != nil {
			return err
		}
		rows, err := tx.Query(ctx, render(showSQL, s.cfg.Schema), pgx.QueryExecModeExec, seq, id)
		if err != nil {
			return err
		}
		list, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (outbox.MessageInfo, error) {
			m, _, err := scanMessage(row)
			return m, err
		})
		return err
	})
	return list, err
}
