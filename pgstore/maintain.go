package pgstore

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/outboxrelay/outbox"
)

// Maintain removes dedup keys that block nothing any more, looks after the archive, and after retries when the database's clock was put back;
// see outbox.Store.
func (s *Store) Maintain(ctx context.Context, q outbox.MaintainQuery) (report outbox.MaintainReport, err error) {
	report, dedupErr := s.expireDedup(ctx, q)
	clockErr := s.followClock(ctx)
	expired, more, err := s.maintainArchive(ctx, q)
	report.ArchiveExpired, report.More = expired, report.More || more
	if err := errors.Join(dedupErr, clockErr, err); err != nil {
		return report, s.explain("maintain", err)
	}
	return report, nil
}

func (s *Store) expireDedup(ctx context.Context, q outbox.MaintainQuery) (outbox.MaintainReport, error) {
	conn, err := s.pool.Acquire(ctx)
	if err != nil {
		return outbox.MaintainReport{}, fmt.Errorf("connect: %w", err)
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
		return outbox.MaintainReport{}, err
	}
	report.More = report.DedupExpired == q.Limit
	return report, nil
}
