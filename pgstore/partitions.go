package pgstore

import (
	"context"
	_ "embed"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/outboxrelay/outbox"
)

//go:embed queries/partitions.sql
var partitionsSQL string

// Partitions lists the parts of the archive; see outbox.Inspector.
func (s *Store) Partitions(ctx context.Context) (list []outbox.Partition, err error) {
	err = s.inspect(ctx, func(tx pgx.Tx) error {
		rows, err := tx.Query(ctx, render(partitionsSQL, s.cfg.Schema), pgx.QueryExecModeExec)
		if err != nil {
			return err
		}
		list, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (p outbox.Partition, err error) {
			var from, to pgtype.Timestamptz
			var unknown bool
			err = row.Scan(&p.Name, &from, &to, &p.Messages.Messages, &unknown, &p.Bytes)
			p.Messages.Estimated, p.Messages.AtLeast = p.Messages.Messages > 0, unknown
			p.From, p.To = finite(from), finite(to)
			return p, err
		})
		return err
	})
	return list, err
}

// finite is a time, or zero for null and infinity.
func finite(t pgtype.Timestamptz) time.Time {
	if !t.Valid || t.InfinityModifier != pgtype.Finite {
		return time.Time{}
	}
	return t.Time
}
