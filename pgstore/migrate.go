package pgstore

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/outboxrelay/outbox"
)

var (
	//go:embed queries/migrate_timeouts.sql
	migrateTimeoutsSQL string
	//go:embed queries/migrate_lock.sql
	migrateLockSQL string
	//go:embed queries/migration_table.sql
	migrationTableSQL string
	//go:embed queries/schema_relations.sql
	schemaRelationsSQL string
	//go:embed queries/schema_functions.sql
	schemaFunctionsSQL string
	//go:embed queries/forget_migration.sql
	forgetMigrationSQL string
	//go:embed queries/undelivered.sql
	undeliveredSQL string
)

// How long a migration waits for another migrator, for what nobody else uses, and for one statement. For tables that are in
// use: tables.go.
const (
	migratorTimeout  = "2min"
	lockTimeout      = "10s"
	statementTimeout = "30min"
)

// ErrNotEmpty refuses to take back a schema that holds undelivered messages.
var ErrNotEmpty = errors.New("the outbox is not empty")

// ErrForeignObjects refuses to touch a schema in which there are relations that aren't the outbox's.
var ErrForeignObjects = errors.New("the schema holds relations of somebody else")

// migrateUp brings the schema to the newest version in one transaction and returns what it applied: nothing when it
// is there already. Any number may run at once; one does it.
func migrateUp(ctx context.Context, conn *pgx.Conn, schema string) error {
	_, err := applyMigrations(ctx, conn, schema)
	return err
}

func applyMigrations(ctx context.Context, conn *pgx.Conn, schema string) ([]migration, error) {
	all, err := readMigrations(migrationFiles, "migrations")
	if err != nil {
		return nil, err
	}
	return applyMissing(ctx, conn, schema, all)
}

// applyMissing applies those that the schema does not have.
func applyMissing(ctx context.Context, conn *pgx.Conn, schema string, all []migration) (applied []migration, err error) {
	err = inMigration(ctx, conn, schema, func(tx pgx.Tx) error {
		applied, err = applyPending(ctx, tx, schema, all)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("migrate schema %s: %w", schema, err)
	}
	return applied, nil
}

// inMigration runs fn in a transaction that holds the migrators' lock. It states its isolation level and access
// mode, because the defaults of a role or database may be others, and nothing in it outlives it on the connection.
func inMigration(ctx context.Context, conn *pgx.Conn, schema string, fn func(pgx.Tx) error) error {
	if err := checkSchemaName(schema); err != nil {
		return err
	}
	options := pgx.TxOptions{IsoLevel: pgx.ReadCommitted, AccessMode: pgx.ReadWrite}
	return pgx.BeginTxFunc(ctx, conn, options, func(tx pgx.Tx) error {
		if err := setTimeouts(ctx, tx, statementTimeout, migratorTimeout); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, render(migrateLockSQL, schema)); err != nil {
			return fmt.Errorf("wait for other migrators: %w", err)
		}
		if err := setTimeouts(ctx, tx, statementTimeout, lockTimeout); err != nil {
			return err
		}
		return fn(tx)
	})
}

func setTimeouts(ctx context.Context, tx pgx.Tx, statement, lock string) error {
	if _, err := tx.Exec(ctx, migrateTimeoutsSQL, pgx.QueryExecModeExec, statement, lock); err != nil {
		return fmt.Errorf("set time-outs: %w", err)
	}
	return nil
}

func applyPending(ctx context.Context, tx pgx.Tx, schema string, all []migration) ([]migration, error) {
	pending, err := pendingMigrations(ctx, tx, schema, all)
	if err != nil || len(pending) == 0 {
		return nil, err
	}
	if err := refuseForeign(ctx, tx, schema, func(name string) bool {
		return slices.Contains(relationNames(pending), name)
	}); err != nil {
		return nil, err
	}
	return pending, withTables(ctx, tx, schema, alteredTables(pending), func(tx pgx.Tx) error {
		for _, m := range pending {
			if _, err := tx.Exec(ctx, m.script(schema)); err != nil {
				return fmt.Errorf("apply migration %d %s: %w", m.version, m.name, err)
			}
		}
		return nil
	})
}

// pendingMigrations are those that the schema does not have. It is an error when it has what only newer programs
// know and this one can't work with.
func pendingMigrations(ctx context.Context, tx pgx.Tx, schema string, all []migration) ([]migration, error) {
	ours, err := hasMigrationTable(ctx, tx, schema)
	if err != nil || !ours {
		return all, err
	}
	applied, err := readApplied(ctx, tx, schema)
	if err != nil {
		return nil, err
	}
	if err := compatible(schema, applied, len(all)); errors.Is(err, outbox.ErrSchemaTooNew) {
		return nil, err
	}
	return slices.DeleteFunc(slices.Clone(all), func(m migration) bool {
		return slices.ContainsFunc(applied, func(a appliedMigration) bool { return a.Version == m.version })
	}), nil
}

// hasMigrationTable asks the catalog, because reading a table that isn't there would end the transaction.
func hasMigrationTable(ctx context.Context, tx pgx.Tx, schema string) (ours bool, err error) {
	err = tx.QueryRow(ctx, render(migrationTableSQL, schema), pgx.QueryExecModeExec).Scan(&ours)
	if errors.Is(err, pgx.ErrNoRows) {
		return false, nil
	}
	return ours, err
}

// refuseForeign fails with the names of the schema's relations for which isForeign holds.
func refuseForeign(ctx context.Context, tx pgx.Tx, schema string, isForeign func(name string) bool) error {
	names, err := schemaNames(ctx, tx, schemaRelationsSQL, schema)
	if err != nil {
		return err
	}
	foreign := slices.DeleteFunc(names, func(name string) bool { return !isForeign(name) })
	if len(foreign) > 0 {
		return fmt.Errorf("%w: %s", ErrForeignObjects, strings.Join(foreign, ", "))
	}
	return nil
}

func schemaNames(ctx context.Context, q queryer, query, schema string) ([]string, error) {
	rows, err := q.Query(ctx, query, pgx.QueryExecModeExec, schema)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[string])
}

// migrateDown takes migrations back, the newest first, until the schema is at the target version; 0 is none. It
// refuses an outbox that holds messages, and version 0 also a schema that holds relations of somebody else.
func migrateDown(ctx context.Context, conn *pgx.Conn, schema string, target int) error {
	all, err := readMigrations(migrationFiles, "migrations")
	if err != nil {
		return err
	}
	if target < 0 || target > len(all) {
		return refuse("target version", fmt.Sprint(target), fmt.Sprintf("must be 0 to %d", len(all)))
	}
	err = inMigration(ctx, conn, schema, func(tx pgx.Tx) error { return takeBack(ctx, tx, schema, all, target) })
	if err != nil {
		return fmt.Errorf("migrate schema %s down to version %d: %w", schema, target, err)
	}
	return nil
}

func takeBack(ctx context.Context, tx pgx.Tx, schema string, all []migration, target int) error {
	applied, err := readApplied(ctx, tx, schema)
	if err != nil {
		return err
	}
	if target == 0 {
		ours := relationNames(all)
		if err := refuseForeign(ctx, tx, schema, func(name string) bool { return !slices.Contains(ours, name) }); err != nil {
			return err
		}
	}
	tables := restoredTables(all[target:])
	return withTables(ctx, tx, schema, tables, func(tx pgx.Tx) error {
		if err := refuseMessages(ctx, tx, schema); err != nil {
			return err
		}
		return takeBackTo(ctx, tx, schema, all, applied, target)
	})
}

func takeBackTo(ctx context.Context, tx pgx.Tx, schema string, all []migration, applied []appliedMigration, target int) error {
	for _, a := range slices.Backward(applied) {
		if a.Version <= target {
			break
		}
		if a.Version > len(all) {
			return fmt.Errorf("%w: it has migration %d %s", outbox.ErrSchemaTooNew, a.Version, a.Name)
		}
		if err := all[a.Version-1].takeBack(ctx, tx, schema); err != nil {
			return fmt.Errorf("take back migration %d %s: %w", a.Version, a.Name, err)
		}
	}
	return nil
}

func (m *migration) takeBack(ctx context.Context, tx pgx.Tx, schema string) error {
	if _, err := tx.Exec(ctx, render(m.down, schema)); err != nil || m.version == 1 {
		return err // the first one takes the table migration with it
	}
	_, err := tx.Exec(ctx, render(forgetMigrationSQL, schema), pgx.QueryExecModeExec, m.version)
	return err
}

// refuseMessages wants the tables of messages locked, so that the answer stays true until the end of the transaction.
func refuseMessages(ctx context.Context, tx pgx.Tx, schema string) error {
	rows, err := tx.Query(ctx, render(undeliveredSQL, schema), pgx.QueryExecModeExec)
	if err != nil {
		return err
	}
	counts, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (string, error) {
		var state string
		var n int64
		err := row.Scan(&state, &n)
		return fmt.Sprintf("%d %s", n, state), err
	})
	if err != nil {
		return err
	}
	if len(counts) > 0 {
		return fmt.Errorf("%w: %s", ErrNotEmpty, strings.Join(counts, ", "))
	}
	return nil
}
