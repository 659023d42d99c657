package pgstore

import (
	"context"
	"database/sql"
	_ "embed"
	"errors"
	"fmt"
	"strconv"

	"github.com/jackc/pgx/v5"

	"github.com/outboxrelay/outbox"
)

//go:embed queries/settle_tx.sql
var settleTxSQL string

// lookPatience is how long a look waits for a transaction that its handler has left open. Short, because meanwhile it
// has a connection of the pool.
const lookPatience = "250ms"

// errSettledBefore: only a mistake of the handler brings it about.
var errSettledBefore = errors.New("the message was settled before, in this transaction or by a handler that had returned")

// SettleTx settles the message of d in the handler's own transaction, so that what the handler writes there and the end
// of the message commit together: exactly once, whatever dies in between. The transaction is one of the database that
// holds the outbox; any isolation level will do, and it may take longer than the relay's lease.
//
//	relay handler(ctx, d):
//		return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
//			… write the effect …
//			return store.SettleTx(ctx, tx, d)
//		})
//
// Return its error and roll back: it is outbox.ErrLeaseLost when the relay does not hold the message any more, or SQLSTATE
// 40001 when that happened after the snapshot of a REPEATABLE READ transaction. Whatever the handler returns afterwards,
// the relay looks whether the message is gone: then it was delivered, otherwise the attempt has failed, even if the
// handler returned nil. The transaction must have ended when the handler returns; the relay waits for one that has not.
//
// With Config.KeepDelivered the message is kept like any other; what the archive refuses is settled all the same, and the
// server's log says so. The role needs EXECUTE on the SQL function settle_tx. docs/exactly-once.md tells the rest.
func (s *Store) SettleTx(ctx context.Context, tx pgx.Tx, d *outbox.Delivery) error {
	return s.settleIn(ctx, pgxSessionOf(tx), d)
}

// SettleSQL is SettleTx for a transaction of database/sql, with any driver for PostgreSQL.
func (s *Store) SettleSQL(ctx context.Context, tx *sql.Tx, d *outbox.Delivery) error {
	return s.settleIn(ctx, sqlSessionOf(tx), d)
}

func (s *Store) settleIn(ctx context.Context, tx session, d *outbox.Delivery) error {
	if tx == nil {
		return fmt.Errorf("settle message %s: the transaction is nil: %w", d.ID, outbox.ErrNoTransaction)
	}
	d.SettlesInTx(func(ctx context.Context) (bool, error) { return s.hasEnded(ctx, d.Seq) })
	answers, err := tx.published(ctx, s.settleTxSQL,
		d.Claim.Relay.String(), strconv.FormatInt(d.Claim.ID, 10), d.Claim.Token.String(), strconv.FormatInt(d.Seq, 10), s.keepText())
	if err == nil && len(answers) != 1 {
		err = fmt.Errorf("%d answers", len(answers))
	}
	if err != nil {
		return s.explain(fmt.Sprintf("settle message %s", d.ID), err)
	}
	switch answers[0] {
	case "settled":
		return nil
	case "fenced":
		return fmt.Errorf("settle message %s: %w", d.ID, outbox.ErrLeaseLost)
	default:
		return fmt.Errorf("settle message %s: %w", d.ID, errSettledBefore)
	}
}

// keepText is keep for a statement whose arguments are texts.
func (s *Store) keepText() string {
	if keep := s.keep(); keep != nil {
		return strconv.FormatBool(*keep)
	}
	return ""
}

// hasEnded tells whether a message is gone, once no transaction is about to change that.
func (s *Store) hasEnded(ctx context.Context, seq int64) (ended bool, err error) {
	errs := s.run(ctx, s.transactionWithin(lookPatience, call{s.sql.hasEnded, []any{seq},
		func(rows pgx.Rows) error { return rows.Scan(&ended) }}))
	if state, _ := sqlError(errs[0]); state == stateLockTimeout {
		return false, fmt.Errorf("its transaction is still open: %w", errs[0])
	}
	return ended, errs[0]
}
