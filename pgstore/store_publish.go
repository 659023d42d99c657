package pgstore

import (
	"context"
	"database/sql"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outboxrelay/outbox"
)

// Publish is Publisher.Publish with fewer notifications: of the transactions that publish within a few milliseconds
// one notifies by its commit, and the Store wakes relays for the others once they have ended. The transaction may be of
// any pool that leads to the Store's database.
func (s *Store) Publish(ctx context.Context, tx pgx.Tx, ms ...outbox.Message) ([]outbox.Receipt, error) {
	if tx != nil {
		if published, ok := s.within.Load(tx.Conn()); ok {
			published.(*atomic.Bool).Store(true)
			receipts, _, err := s.Publisher.publish(ctx, pgxSessionOf(tx), s.notifies() && s.waker.isClosed(), ms)
			return receipts, err
		}
	}
	return s.publish(ctx, pgxSessionOf(tx), ms)
}

// PublishSQL is Publish for a transaction of database/sql; see Publisher.PublishSQL.
func (s *Store) PublishSQL(ctx context.Context, tx *sql.Tx, ms ...outbox.Message) ([]outbox.Receipt, error) {
	return s.publish(ctx, sqlSessionOf(tx), ms)
}

// PublishQuerier is Publish for what an ORM offers in place of a *sql.Tx; see Publisher.PublishQuerier.
func (s *Store) PublishQuerier(ctx context.Context, q Querier, ms ...outbox.Message) ([]outbox.Receipt, error) {
	return s.publish(ctx, s.provenSessionOf(q), ms)
}

// publish notifies in the transaction if it is its turn, else has it followed.
func (s *Store) publish(ctx context.Context, tx session, ms []outbox.Message) ([]outbox.Receipt, error) {
	notifies := s.notifies()
	turn := notifies && s.waker.turn(time.Now())
	receipts, transaction, err := s.Publisher.publish(ctx, tx, turn, ms)
	if notifies && !turn && transaction != "" {
		s.waker.follow(transaction, time.Now())
	}
	return receipts, err
}

// InTx runs f in a transaction on the Store's pool, commits it if f returns nil, and rolls it back otherwise; errors
// are those of pgx.BeginFunc. Messages that f publishes through the Store cost no notification in the commit: the
// Store knows of it, wakes the relays of its own at once, and tells the others afterwards.
//
// A Store of Open has a pool of two connections, through which its relay works too: for many transactions at a time
// make it by New on a pool of your own.
func (s *Store) InTx(ctx context.Context, f func(tx pgx.Tx) error) error {
	var published atomic.Bool
	failed := false
	err := pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		conn := tx.Conn()
		s.within.Store(conn, &published)
		defer s.within.Delete(conn)
		err := f(tx)
		failed = err != nil
		return err
	})
	// A commit that fails may have been made all the same: its answer was lost.
	if published.Load() && !failed {
		s.signal.wake()
		if s.notifies() {
			s.waker.wake(time.Now())
		}
	}
	return err
}

// wakeRelays is the waker's askFunc. Its commit does not wait for the disk, and so the lock of those that notify is
// held for no longer than it takes.
func (s *Store) wakeRelays(ctx context.Context, ids []string, certain bool) (running []string, woke bool, err error) {
	errs := s.run(ctx, s.transaction(call{statement: s.sql.asyncCommit},
		call{s.sql.wake, []any{ids, certain}, func(rows pgx.Rows) error { return rows.Scan(&running, &woke) }}))
	return running, woke, errs[0]
}
