package pgstore

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/outboxrelay/outbox/internal/failpoint"
)

// call is one statement of an exchange.
type call struct {
	statement statement
	args      []any
	read      func(pgx.Rows) error // called for each row; nil: none is expected
}

// exchange sends groups of calls in one write, each group with a Sync of its own, and reads all answers. It
// returns an error for each group. So a whole transaction, begin and commit included, is on its way before the
// server starts with it: between taking the claim lock and giving it up the server never waits for us.
//
// After an error inside a transaction the connection must not be used again (pgxpool sees to that).
func exchange(ctx context.Context, conn *pgx.Conn, groups ...[]call) []error {
	errs := make([]error, len(groups))
	fail := func(err error) []error {
		for i := range errs {
			errs[i] = errors.Join(errs[i], err)
		}
		return errs
	}
	prepared := usesPreparedStatements(conn)
	if prepared {
		if err := prepareAll(ctx, conn, groups); err != nil {
			return fail(err)
		}
	}
	pipeline := conn.PgConn().StartPipeline(ctx)
	for _, group := range groups {
		for _, c := range group {
			if err := send(conn, pipeline, c, prepared); err != nil {
				return fail(errors.Join(err, pipeline.Close()))
			}
		}
		pipeline.SendPipelineSync()
	}
	if err := pipeline.Flush(); err != nil {
		return fail(errors.Join(err, pipeline.Close()))
	}
	if failpoint.Enabled {
		failpoint.Hit("sent." + groups[0][max(len(groups[0])-2, 0)].statement.file)
	}
	for i, group := range groups {
		errs[i] = receive(conn, pipeline, group)
	}
	if err := pipeline.Close(); err != nil && errors.Join(errs...) == nil {
		return fail(err)
	}
	return errs
}

// usesPreparedStatements follows the connection's configuration: behind poolers that lose prepared statements
// people choose another mode.
func usesPreparedStatements(conn *pgx.Conn) bool {
	return conn.Config().DefaultQueryExecMode == pgx.QueryExecModeCacheStatement
}

// preparedData is where a connection keeps which statements it has prepared.
const preparedData = "prepared statements of the outbox"

// prepareAll prepares what the connection has not prepared yet, all in one write. One after the other, each statement would cost
// the way there and back, and together more than the call's time on a slow network: it would be given up, its
// connection closed, and all begin again with the next one (TestLateServer).
func prepareAll(ctx context.Context, conn *pgx.Conn, groups [][]call) error {
	known, _ := conn.PgConn().CustomData()[preparedData].(map[string]bool)
	if known == nil {
		known = map[string]bool{}
		conn.PgConn().CustomData()[preparedData] = known
	}
	var missing []statement
	for _, group := range groups {
		for _, c := range group {
			asked := func(s statement) bool { return s.name == c.statement.name }
			if !known[c.statement.name] && !slices.ContainsFunc(missing, asked) {
				missing = append(missing, c.statement)
			}
		}
	}
	if len(missing) == 0 {
		return nil
	}
	pipeline := conn.PgConn().StartPipeline(ctx)
	for _, s := range missing {
		pipeline.SendPrepare(s.name, s.sql, nil)
	}
	err := pipeline.Sync()
	if err == nil {
		err = receivePrepared(pipeline, missing, known)
	}
	if closing := pipeline.Close(); err == nil {
		err = closing
	}
	return err
}

// receivePrepared reads the answers up to the Sync. After the first that is an error the server prepares no more.
func receivePrepared(pipeline *pgconn.Pipeline, missing []statement, known map[string]bool) (first error) {
	for i := 0; ; {
		results, err := pipeline.GetResults()
		var pgErr *pgconn.PgError
		switch {
		case errors.As(err, &pgErr):
			first = errors.Join(first, fmt.Errorf("prepare %s: %w", missing[i].name, err))
		case err != nil:
			return errors.Join(first, err)
		case results == nil:
			return errors.Join(first, errors.New("the connection ended before all statements were prepared"))
		default:
			if _, prepared := results.(*pgconn.StatementDescription); !prepared {
				return first
			}
			known[missing[i].name] = true
			i++
		}
	}
}

func send(conn *pgx.Conn, pipeline *pgconn.Pipeline, c call, prepared bool) error {
	types := conn.TypeMap()
	values := make([][]byte, len(c.args))
	formats := make([]int16, len(c.args))
	for i, arg := range c.args {
		oid := c.statement.params[i]
		formats[i] = types.FormatCodeForOID(oid)
		// An empty buffer, not nil: what is nil afterwards is NULL.
		encoded, err := types.Encode(oid, formats[i], arg, []byte{})
		if err != nil {
			return fmt.Errorf("encode parameter %d of %s: %w", i+1, c.statement.name, err)
		}
		values[i] = encoded
	}
	binary := []int16{pgx.BinaryFormatCode}
	if prepared {
		pipeline.SendQueryPrepared(c.statement.name, values, formats, binary)
	} else {
		pipeline.SendQueryParams(c.statement.sql, values, c.statement.params, formats, binary)
	}
	return nil
}

// receive reads the answers of one group up to its Sync.
func receive(conn *pgx.Conn, pipeline *pgconn.Pipeline, group []call) (first error) {
	for i := 0; ; i++ {
		results, err := pipeline.GetResults()
		switch {
		case err != nil:
			var pgErr *pgconn.PgError
			if !errors.As(err, &pgErr) {
				return errors.Join(first, err)
			}
			// The server has skipped to the Sync, and so does the pipeline.
			first = errors.Join(first, err)
		case results == nil:
			return errors.Join(first, errors.New("the connection ended before all answers had come"))
		default:
			reader, ok := results.(*pgconn.ResultReader)
			if !ok {
				return first
			}
			first = errors.Join(first, readRows(conn, reader, group[i]))
		}
	}
}

func readRows(conn *pgx.Conn, reader *pgconn.ResultReader, c call) error {
	rows := pgx.RowsFromResultReader(conn.TypeMap(), reader)
	defer rows.Close()
	for rows.Next() {
		if c.read == nil {
			continue
		}
		if err := c.read(rows); err != nil {
			return fmt.Errorf("read answer of %s: %w", c.statement.name, err)
		}
	}
	return rows.Err()
}

// transaction puts begin, the server-side deadlines and commit around calls.
func (s *Store) transaction(calls ...call) []call {
	return s.transactionWithin(lockDeadline, calls...)
}

// transactionWithin is transaction with another deadline for locks.
func (s *Store) transactionWithin(locks string, calls ...call) []call {
	return s.transactionUntil(statementDeadline, locks, calls...)
}

// transactionUntil is transaction with other deadlines for statements and locks.
func (s *Store) transactionUntil(statements, locks string, calls ...call) []call {
	group := make([]call, 0, len(calls)+3)
	group = append(group, call{statement: s.sql.begin},
		call{statement: s.sql.deadlines, args: []any{statements, locks}})
	group = append(group, calls...)
	return append(group, call{statement: s.sql.commit})
}

// Deadlines on the server, as its settings.
const (
	statementDeadline = "30s"
	lockDeadline      = "2s"
)
