package inbox

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/outboxrelay/outbox"
	"github.com/outboxrelay/outbox/internal/interval"
)

// Executor is a connection or pool of pgx.
type Executor interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
}

// purgeBatch is how many marks one statement removes.
const purgeBatch = 5000

// Purge removes marks that are older than age, in batches that each are a transaction of their own, until none is left,
// and returns how many it has removed. Call it from time to time, from one process or several. A message that comes again
// after its mark is gone counts as new: age is longer than any message may be on its way again, redrives included. db is
// outside a transaction. The role needs SELECT, UPDATE and DELETE on the table mark.
func (b *Inbox) Purge(ctx context.Context, db Executor, age time.Duration) (removed int64, err error) {
	return purge(age, func(interval string) (int64, error) {
		tag, err := db.Exec(ctx, b.purge, interval, fmt.Sprint(purgeBatch))
		return tag.RowsAffected(), err
	})
}

// PurgeSQL is Purge by database/sql.
func (b *Inbox) PurgeSQL(ctx context.Context, db *sql.DB, age time.Duration) (removed int64, err error) {
	return purge(age, func(interval string) (int64, error) {
		result, err := db.ExecContext(ctx, b.purge, interval, fmt.Sprint(purgeBatch))
		if err != nil {
			return 0, err
		}
		return result.RowsAffected()
	})
}

func purge(age time.Duration, batch func(interval string) (int64, error)) (removed int64, err error) {
	if age <= 0 {
		return 0, &outbox.FieldError{Field: "age", Value: age.String(), Bound: "more than zero: it removes what is older"}
	}
	for {
		n, err := batch(interval.Text(age))
		removed += n
		if err != nil {
			return removed, explain("purge marks", err)
		}
		if n < purgeBatch {
			return removed, nil
		}
	}
}
