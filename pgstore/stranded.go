package pgstore

import (
	"context"
	_ "embed"

	"github.com/jackc/pgx/v5"

	"github.com/outboxrelay/outbox"
)

//go:embed queries/status_stranded.sql
var statusStrandedSQL string

// strandedBound is where counting ends in status_stranded.sql, for each destination and topic.
const strandedBound = 1000

// stranded adds the messages that are bound to where no live relay would take them. From here on the transaction has the planner's
// settings of the claim: the query goes by an index, whatever the statistics say.
func (s *Store) stranded(ctx context.Context, tx pgx.Tx, st *outbox.Status) error {
	if _, err := tx.Exec(ctx, render(planSettingsSQL, s.cfg.Schema), pgx.QueryExecModeExec); err != nil {
		return err
	}
	rows, err := tx.Query(ctx, render(statusStrandedSQL, s.cfg.Schema), pgx.QueryExecModeExec, strandedBound)
	if err != nil {
		return err
	}
	var destination, topic string
	var known bool
	var messages int64
	_, err = pgx.ForEachRow(rows, []any{&destination, &topic, &known, &messages}, func() error {
		st.AddStranded(destination, topic, known, bounded(messages, strandedBound))
		return nil
	})
	return err
}
