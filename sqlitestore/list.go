package sqlitestore

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"math"

	"github.com/outboxrelay/outbox"
	"github.com/outboxrelay/outbox/internal/alike"
	"github.com/outboxrelay/outbox/internal/listing"
)

const (
	listWindow = 20_000  // rows that are looked at in one table
	listBound  = 100_000 // and for a page
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
	err = s.read(ctx, func(t *tx) error {
		f := newFilter(t.now, q.Filter)
		for looked := 0; at.Table != "" && looked < listBound && int64(len(page.Messages)) < q.Limit; looked += listWindow {
			table := at.Table
			found, end, err := t.look(&f, f.means, &at, math.MaxInt64, int(q.Limit)-len(page.Messages), listWindow)
			if err != nil {
				return err
			}
			if end {
				at = listing.Following(tables, table)
			}
			for _, r := range found {
				m, err := t.stored(listing.Place{Table: table, Seq: r.seq, Generation: r.generation}, q.Payload)
				if err != nil {
					return err
				}
				page.Messages = append(page.Messages, m...)
			}
		}
		return nil
	})
	if err != nil {
		return outbox.ListPage{}, s.explain("list", err)
	}
	page.Next = at.String()
	return page, nil
}

// Show tells all that is stored of one message; see outbox.Catalog.
func (s *Store) Show(ctx context.Context, id outbox.ID) (list []outbox.MessageInfo, err error) {
	err = s.read(ctx, func(t *tx) error {
		var places []listing.Place
		err := t.rows("show", []any{id.String()}, func(rows *sql.Rows) error {
			var p listing.Place
			err := rows.Scan(&p.Table, &p.Seq, &p.Generation)
			places = append(places, p)
			return err
		})
		if err != nil {
			return err
		}
		for _, p := range places {
			m, err := t.stored(p, true)
			if err != nil {
				return err
			}
			list = append(list, m...)
		}
		return nil
	})
	if err != nil {
		return nil, s.explain("show", err)
	}
	return list, nil
}

// stored reads the one message of a place.
func (t *tx) stored(p listing.Place, payload bool) (list []outbox.MessageInfo, err error) {
	err = t.often("stored", []any{p.Table, p.Seq, p.Generation, payload}, func(rows *sql.Rows) error {
		m, err := scanStored(rows)
		list = append(list, m)
		return err
	})
	return list, err
}

func scanStored(rows *sql.Rows) (m outbox.MessageInfo, err error) {
	var id string
	var published int64
	var available, ended, expires sql.NullInt64
	var headers sql.NullString
	err = rows.Scan(&m.Seq, &id, &m.Message.Topic, &m.Message.Key, &m.State, &m.InFlight, &m.Holds, &m.Attempts, &m.Generation, &m.Destination,
		&published, &available, &ended, &expires, &m.Class, &m.Text, &m.Actor, &m.NoPayload, &headers, &m.Message.Payload)
	if err != nil {
		return m, err
	}
	m.PublishedAt = timeOf(published)
	m.AvailableAt, m.EndedAt, m.Message.ExpiresAt = timeOrZero(available), timeOrZero(ended), timeOrZero(expires)
	// A row that somebody else has damaged is shown as far as it can be read.
	m.Message.ID, _ = outbox.ParseID(id)
	if headers.Valid && json.Unmarshal([]byte(headers.String), &m.Message.Headers) != nil {
		m.Message.Headers = nil
	}
	return m, nil
}

// DeadLetters groups the dead messages; see outbox.Catalog.
func (s *Store) DeadLetters(ctx context.Context) (letters outbox.DeadLetters, err error) {
	var groups alike.Groups
	err = s.read(ctx, func(t *tx) error {
		return t.rows("dead_letters", nil, func(rows *sql.Rows) error {
			var g outbox.DeadGroup
			var id string
			var first, last int64
			err := rows.Scan(&g.Topic, &g.Class, &g.Text, &g.Messages, &g.Holding, &first, &last, &id, &letters.Messages.Messages)
			if err != nil {
				return err
			}
			g.First, g.Last = timeOf(first), timeOf(last)
			g.Example, _ = outbox.ParseID(id) // of a damaged row: none
			groups.Add(g)
			return nil
		})
	})
	if err != nil {
		return outbox.DeadLetters{}, s.explain("dead letters", err)
	}
	if letters.Messages.Messages > countBound {
		letters.Messages = outbox.Depth{Messages: countBound, AtLeast: true}
	}
	letters.Groups = groups.List()
	return letters, nil
}

// Partitions fails with errors.ErrUnsupported: the archive is one table.
func (s *Store) Partitions(context.Context) ([]outbox.Partition, error) {
	return nil, fmt.Errorf("partitions: the archive of an outbox in SQLite is one table: %w", errors.ErrUnsupported)
}
