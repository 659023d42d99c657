package pgstore

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/outboxrelay/outbox"
)

// Maintain removes dedup keys that block nothing any more; see outbox.Store.
func (s *Store) Maintain(ctx context.Context, q outbox.MaintainQuery) (outbox.MaintainReport, error) {
	conn, err := s.pool.Acquire(ctx)
	if err != nil {
		return outbox.MaintainReport{}, fmt.Errorf("maintain: connect: %w", err)
	}
	defer conn.Release()
	var report outbox.MaintainReport
	err = pgx.BeginTxFunc(ctx, conn, pgx.TxOptions{IsoLevel: pgx.ReadCommitted, AccessMode: pgx.ReadWrite},
		func(tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, s.sql.deadlines.sql, statementDeadline, lockDeadline); err != nil {
				return err
			}
			tag, err := tx.Exec(ctx, s.sql.expireDedup.sql, q.Limit)
			report.DedupExpired = int(tag.RowsAffected())
			return err
		})
	if err != nil {
		return outbox.MaintainReport{}, s.explain("maintain", err)
	}
	report.More = report.DedupExpired == q.Limit
	return report, nil
}
