package pgstore

import (
	"context"
	"database/sql"
	"errors"

	"github.com/jackc/pgx/v5"
)

// Querier is what *sql.Tx and the transactions of ORMs have in common. A pool has it too, which is why
// PublishQuerier asks the database whether there is a transaction.
type Querier interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// session is a caller's transaction, whatever it is made of.
type session interface {
	// prove fails outside a transaction, where the type does not say it.
	prove(ctx context.Context) error
	exec(ctx context.Context, query string, args ...any) error
	// published returns the first column of the rows, of which there are two: the id of the transaction, or empty for
	// what was not published.
	published(ctx context.Context, query string, args ...any) ([]string, error)
}

type pgxSession struct{ tx pgx.Tx }

// pgxSessionOf and sqlSessionOf return nil for a transaction that is nil.
func pgxSessionOf(tx pgx.Tx) session {
	if tx == nil {
		return nil
	}
	return pgxSession{tx}
}

func sqlSessionOf(tx *sql.Tx) session {
	if tx == nil {
		return nil
	}
	return sqlSession{tx}
}

func (s pgxSession) prove(context.Context) error { return nil }

func (s pgxSession) exec(ctx context.Context, query string, args ...any) error {
	_, err := s.tx.Exec(ctx, query, args...)
	return err
}

func (s pgxSession) published(ctx context.Context, query string, args ...any) ([]string, error) {
	rows, err := s.tx.Query(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (string, error) {
		return string(row.RawValues()[0]), nil // text is the same in both formats
	})
}

type sqlSession struct{ q Querier }

func (s sqlSession) prove(context.Context) error { return nil }

func (s sqlSession) exec(ctx context.Context, query string, args ...any) error {
	_, err := s.q.ExecContext(ctx, query, args...)
	return err
}

func (s sqlSession) published(ctx context.Context, query string, args ...any) (published []string, err error) {
	rows, err := s.q.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var id, notified sql.RawBytes
		if err := rows.Scan(&id, &notified); err != nil {
			return nil, err
		}
		published = append(published, string(id))
	}
	return published, rows.Err()
}

// provenSession is a Querier that must show that it is a transaction.
type provenSession struct {
	sqlSession
	statement string
}

func (p *Publisher) provenSessionOf(q Querier) session {
	if q == nil {
		return nil
	}
	return provenSession{sqlSession{q}, p.inTransactionSQL}
}

func (s provenSession) prove(ctx context.Context) error { return s.exec(ctx, s.statement) }
