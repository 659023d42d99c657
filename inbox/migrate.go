package inbox

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// Beginner is a connection or pool of pgx.
type Beginner interface {
	BeginTx(ctx context.Context, options pgx.TxOptions) (pgx.Tx, error)
}

// Migrate makes the schema and the table of marks if they do not exist. Any number of processes may call it at a time, at
// every start: one makes them and the others wait. The role needs CREATE on the database, or on the schema if that exists.
func (b *Inbox) Migrate(ctx context.Context, db Beginner) error {
	tx, err := db.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.ReadCommitted, AccessMode: pgx.ReadWrite})
	if err != nil {
		return fmt.Errorf("migrate inbox: %w", err)
	}
	defer func() { _ = tx.Rollback(ctx) }()
	if _, err := tx.Exec(ctx, b.migrate, pgx.QueryExecModeExec); err != nil {
		return fmt.Errorf("migrate inbox: %w", err)
	}
	if err := tx.Commit(ctx); err != nil {
		return fmt.Errorf("migrate inbox: %w", err)
	}
	return nil
}

// MigrateSQL is Migrate by database/sql.
func (b *Inbox) MigrateSQL(ctx context.Context, db *sql.DB) error {
	tx, err := db.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelReadCommitted})
	if err != nil {
		return fmt.Errorf("migrate inbox: %w", err)
	}
	defer func() { _ = tx.Rollback() }()
	if _, err := tx.ExecContext(ctx, "set transaction read write"); err != nil {
		return fmt.Errorf("migrate inbox: %w", err)
	}
	if _, err := tx.ExecContext(ctx, b.migrate); err != nil {
		return fmt.Errorf("migrate inbox: %w", err)
	}
	if err := tx.Commit(); err != nil {
		return fmt.Errorf("migrate inbox: %w", err)
	}
	return nil
}
