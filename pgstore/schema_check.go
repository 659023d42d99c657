package pgstore

import (
	"context"
	_ "embed"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outboxrelay/outbox"
)

//go:embed queries/applied.sql
var appliedSQL string

// queryer is a connection, pool or transaction of pgx.
type queryer interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

// appliedMigration is a line of the table migration.
type appliedMigration struct {
	Version       int
	Name          string
	AppliedAt     time.Time
	MinCompatible int
}

// checkSchema reports whether this program can work with the schema that is there: outbox.ErrSchemaMissing when it
// isn't or is older, outbox.ErrSchemaTooNew when it was made for programs newer than this one.
func checkSchema(ctx context.Context, q queryer, schema string) error {
	if err := checkSchemaName(schema); err != nil {
		return err
	}
	migrations, err := readMigrations(migrationFiles, "migrations")
	if err != nil {
		return err
	}
	applied, err := readApplied(ctx, q, schema)
	if err != nil {
		return fmt.Errorf("check schema: %w", err)
	}
	return compatible(schema, applied, len(migrations))
}

// compatible compares what is applied with the version that the program was made for.
func compatible(schema string, applied []appliedMigration, version int) error {
	current := 0
	for _, a := range applied {
		current = max(current, a.Version)
		if a.MinCompatible > version {
			return fmt.Errorf("check schema: %w: migration %d %s of schema %s needs programs made for version %d or later, this one was made for %d",
				outbox.ErrSchemaTooNew, a.Version, a.Name, schema, a.MinCompatible, version)
		}
	}
	if current < version {
		return fmt.Errorf("check schema: %w", schemaMissing(schema, fmt.Errorf("it is at version %d, this program needs %d", current, version)))
	}
	return nil
}

// readApplied reads the table migration; without one the error is outbox.ErrSchemaMissing.
func readApplied(ctx context.Context, q queryer, schema string) ([]appliedMigration, error) {
	rows, err := q.Query(ctx, render(appliedSQL, schema), pgx.QueryExecModeExec)
	if err == nil {
		var applied []appliedMigration
		if applied, err = pgx.CollectRows(rows, pgx.RowToStructByPos[appliedMigration]); err == nil {
			return applied, nil
		}
	}
	if state, _ := sqlError(err); state == stateUndefinedTable || state == stateInvalidSchema {
		err = schemaMissing(schema, err)
	}
	return nil, err
}
