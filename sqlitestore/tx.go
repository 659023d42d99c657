package sqlitestore

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/outboxrelay/outbox"
)

// tx is a transaction of the Store's own. Its queries are named by their files.
type tx struct {
	ctx  context.Context
	conn *sql.Conn
	sql  statements
	now  int64 // the outbox's clock at the beginning, in milliseconds since 1970

	prepared map[string]*sql.Stmt // by often

	forgets bool  // what ends is not kept
	kept    int   // messages that went to the archive
	unkept  int64 // or should have gone
}

// alone runs f in a transaction that is the file's only writer from its beginning to its end, so that what f reads
// stays true until it has written. It ends without a change when the context is done before the commit.
func (s *Store) alone(ctx context.Context, f func(t *tx) error) error {
	ctx, cancel := context.WithTimeoutCause(ctx, s.cfg.BusyTimeout, errBusyTimeout)
	defer cancel()
	select {
	case s.writer <- struct{}{}:
		defer func() { <-s.writer }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	return s.run(ctx, "begin immediate", f)
}

// write is alone with the time.
func (s *Store) write(ctx context.Context, f func(t *tx) error) error {
	return s.alone(ctx, clocked(f))
}

// read runs f on one snapshot of the file.
func (s *Store) read(ctx context.Context, f func(t *tx) error) error {
	return s.run(ctx, "begin", clocked(f))
}

func clocked(f func(t *tx) error) func(t *tx) error {
	return func(t *tx) error {
		if err := t.row("now", nil, &t.now); err != nil {
			return err
		}
		return f(t)
	}
}

var errBusyTimeout = errors.New("the file was busy with other writers for too long")

func (s *Store) run(ctx context.Context, begin string, f func(t *tx) error) error {
	conn, err := s.db.Conn(ctx)
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	defer conn.Close()
	restore, err := waitBriefly(ctx, conn)
	if err != nil {
		return err
	}
	defer restore()
	err = retryBusy(ctx, func() error {
		_, err := conn.ExecContext(ctx, begin)
		return err
	})
	if err != nil {
		rollBack(ctx, conn) // a driver may say that the context is over when it has begun
		return err
	}
	ended := false
	defer func() {
		if !ended {
			rollBack(ctx, conn)
		}
	}()
	t := &tx{ctx: ctx, conn: conn, sql: s.sql}
	defer t.closePrepared()
	if err := f(t); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return context.Cause(ctx)
	}
	// A commit is not interrupted: whether it was made would not be known.
	_, err = conn.ExecContext(context.WithoutCancel(ctx), "commit")
	ended = err == nil
	return err
}

// waitBriefly keeps SQLite from waiting for the file by itself until restore: it sleeps for up to 100 ms between two
// looks, and whoever sleeps so long hardly ever gets a file that others write to without a rest.
func waitBriefly(ctx context.Context, conn *sql.Conn) (restore func(), err error) {
	var before int
	if err := conn.QueryRowContext(ctx, "pragma busy_timeout").Scan(&before); err != nil {
		return nil, fmt.Errorf("busy_timeout: %w", err)
	}
	if before == 0 {
		return func() {}, nil
	}
	set := func(ctx context.Context, ms int) error {
		_, err := conn.ExecContext(ctx, fmt.Sprintf("pragma busy_timeout = %d", ms))
		return err
	}
	if err := set(ctx, 0); err != nil {
		return nil, fmt.Errorf("busy_timeout: %w", err)
	}
	return func() {
		if set(context.WithoutCancel(ctx), before) != nil {
			_ = conn.Raw(func(any) error { return driver.ErrBadConn }) // it is the caller's
		}
	}, nil
}

// retryBusy does something again and again while the file is busy.
func retryBusy(ctx context.Context, do func() error) error {
	const longest = 4 * time.Millisecond
	for pause := time.Millisecond / 4; ; pause = min(2*pause, longest) {
		err := do()
		if err == nil || !isBusy(err) {
			return err
		}
		timer := time.NewTimer(pause/2 + rand.N(pause))
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return fmt.Errorf("%w: %w", context.Cause(ctx), err)
		}
	}
}

// isBusy knows the error of all drivers by the text that SQLite gives to it.
func isBusy(err error) bool {
	text := err.Error()
	return strings.Contains(text, "database is locked") || strings.Contains(text, "SQLITE_BUSY")
}

// rollBack ends a transaction, and the connection when that fails: it goes back into the caller's pool. SQLite has
// rolled back by itself after some errors; that there is no transaction is fine.
func rollBack(ctx context.Context, conn *sql.Conn) {
	_, err := conn.ExecContext(context.WithoutCancel(ctx), "rollback")
	if err != nil && !strings.Contains(err.Error(), "no transaction is active") {
		_ = conn.Raw(func(any) error { return driver.ErrBadConn })
	}
}

// exec executes a query and returns the number of rows that it changed.
func (t *tx) exec(name string, args ...any) (int64, error) {
	result, err := t.conn.ExecContext(t.ctx, t.text(name), args...)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", name, err)
	}
	return result.RowsAffected()
}

// execAll executes queries with the same arguments, in turn.
func (t *tx) execAll(names []string, args ...any) error {
	for _, name := range names {
		if _, err := t.exec(name, args...); err != nil {
			return err
		}
	}
	return nil
}

// row reads the first row of a query; sql.ErrNoRows if there is none.
func (t *tx) row(name string, args []any, into ...any) error {
	if err := t.conn.QueryRowContext(t.ctx, t.text(name), args...).Scan(into...); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// rows calls scan for each row of a query.
func (t *tx) rows(name string, args []any, scan func(rows *sql.Rows) error) error {
	rows, err := t.conn.QueryContext(t.ctx, t.text(name), args...)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return scanAll(name, rows, scan)
}

// often is rows for a query that the transaction repeats: to parse and plan it costs more than to run it.
func (t *tx) often(name string, args []any, scan func(rows *sql.Rows) error) error {
	if t.prepared[name] == nil {
		stmt, err := t.conn.PrepareContext(t.ctx, t.text(name))
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if t.prepared == nil {
			t.prepared = map[string]*sql.Stmt{}
		}
		t.prepared[name] = stmt
	}
	rows, err := t.prepared[name].QueryContext(t.ctx, args...)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return scanAll(name, rows, scan)
}

func (t *tx) closePrepared() {
	for _, stmt := range t.prepared {
		_ = stmt.Close() // nothing is left to be lost
	}
}

func scanAll(name string, rows *sql.Rows, scan func(rows *sql.Rows) error) (err error) {
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		if err := scan(rows); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	if err := rows.Err(); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

func (t *tx) text(name string) string {
	text, ok := t.sql[name]
	if !ok {
		panic("sqlitestore: no query " + name)
	}
	return text
}

// array is a list as an argument of json_each.
func array[T any](list []T) string {
	if list == nil {
		return "[]"
	}
	text, _ := json.Marshal(list) // numbers, texts, and structs of these
	return string(text)
}

// milliseconds rounds up, so that nothing positive becomes zero.
func milliseconds(d time.Duration) int64 {
	ms := int64(d / time.Millisecond)
	if d%time.Millisecond > 0 {
		ms++
	}
	return ms
}

// duration is as long as a time.Duration can be, at most.
func duration(ms int64) time.Duration {
	return time.Duration(min(ms, math.MaxInt64/int64(time.Millisecond))) * time.Millisecond
}

func timeOf(ms int64) time.Time { return time.UnixMilli(ms) }

func timeOrZero(ms sql.NullInt64) (t time.Time) {
	if ms.Valid {
		t = timeOf(ms.Int64)
	}
	return t
}

// orNull is null for a zero value.
func orNull[T comparable](v T) any {
	var zero T
	if v == zero {
		return nil
	}
	return v
}

// explain wraps an error with what was being done and the condition that it stands for. Our statements name nothing but
// the outbox's own tables, so one that is missing means that the schema is.
func (s *Store) explain(doing string, err error) error {
	if err != nil && strings.Contains(err.Error(), "no such table: ") {
		err = fmt.Errorf("%w: run: outbox migrate up, or Store.Migrate (prefix %s): %w", outbox.ErrSchemaMissing, s.cfg.Prefix, err)
	}
	return fmt.Errorf("%s: %w", doing, err)
}
