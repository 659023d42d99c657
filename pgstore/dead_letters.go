package pgstore

import (
	"context"
	_ "embed"

	"github.com/jackc/pgx/v5"

	"github.com/outboxrelay/outbox"
	"github.com/outboxrelay/outbox/internal/alike"
)

//go:embed queries/dead_letters.sql
var deadLettersSQL string

// DeadLetters groups the dead messages; see outbox.Catalog.
func (s *Store) DeadLetters(ctx context.Context) (letters outbox.DeadLetters, err error) {
	var groups alike.Groups
	err = s.inspect(ctx, func(tx pgx.Tx) error {
		rows, err := tx.Query(ctx, render(deadLettersSQL, s.cfg.Schema), pgx.QueryExecModeExec)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var g outbox.DeadGroup
			var text *string
			err := rows.Scan(&g.Topic, &g.Class, &text, &g.Messages, &g.Holding, &g.First, &g.Last, &g.Example, &letters.Messages.Messages)
			if err != nil {
				return err
			}
			g.Text = orZero(text)
			groups.Add(g)
		}
		return rows.Err()
	})
	if letters.Messages.Messages > countBound {
		letters.Messages = outbox.Depth{Messages: countBound, AtLeast: true}
	}
	letters.Groups = groups.List()
	return letters, err
}
