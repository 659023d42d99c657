package pgstore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outboxrelay/outbox"
)

// Migrator makes, changes and removes the schema of an outbox. Each method connects by itself and disconnects, works
// behind a transaction-mode pooler, and is safe for concurrent use in any number of processes.
type Migrator struct {
	conn   *pgx.ConnConfig
	schema string
}

// Migration is a step of the schema.
type Migration struct {
	Version   int
	Name      string
	AppliedAt time.Time // zero: not applied
}

// ErrSchemaDrift: something that the migrations made is gone.
var ErrSchemaDrift = errors.New("the schema is not what the migrations made")

// NewMigrator makes a Migrator for a schema; "" is "outbox". conn comes from pgx.ParseConfig.
func NewMigrator(conn *pgx.ConnConfig, schema string) (*Migrator, error) {
	if schema == "" {
		schema = DefaultSchema
	}
	if err := checkSchemaName(schema); err != nil {
		return nil, fmt.Errorf("migrator: %w", err)
	}
	return &Migrator{conn.Copy(), schema}, nil
}

// Up applies what is missing, all in one transaction, and returns what it applied.
func (m *Migrator) Up(ctx context.Context) (applied []Migration, err error) {
	err = m.connected(ctx, func(conn *pgx.Conn) error {
		ms, err := applyMigrations(ctx, conn, m.schema)
		for _, step := range ms {
			applied = append(applied, Migration{Version: step.version, Name: step.name})
		}
		return err
	})
	return applied, err
}

// Down takes migrations back, the newest first, until the schema is at the target version; 0 removes everything. It
// fails with ErrNotEmpty while there are messages that are ready, waiting or dead.
func (m *Migrator) Down(ctx context.Context, target int) error {
	return m.connected(ctx, func(conn *pgx.Conn) error { return migrateDown(ctx, conn, m.schema, target) })
}

// List returns the program's migrations and those that only the database knows, by version.
func (m *Migrator) List(ctx context.Context) (list []Migration, err error) {
	err = m.connected(ctx, func(conn *pgx.Conn) error {
		applied, err := readApplied(ctx, conn, m.schema)
		if err != nil && !errors.Is(err, outbox.ErrSchemaMissing) {
			return fmt.Errorf("list migrations: %w", err)
		}
		list, err = merge(applied)
		return err
	})
	return list, err
}

func merge(applied []appliedMigration) ([]Migration, error) {
	all, err := readMigrations(migrationFiles, "migrations")
	if err != nil {
		return nil, err
	}
	var list []Migration
	for _, a := range applied {
		list = append(list, Migration{a.Version, a.Name, a.AppliedAt})
	}
	for _, m := range all {
		if !slices.ContainsFunc(list, func(l Migration) bool { return l.Version == m.version }) {
			list = append(list, Migration{Version: m.version, Name: m.name})
		}
	}
	slices.SortFunc(list, func(a, b Migration) int { return a.Version - b.Version })
	return list, nil
}

// Print writes the SQL that Up runs on a database without the schema, for those who run it themselves.
func (m *Migrator) Print(w io.Writer) error {
	all, err := readMigrations(migrationFiles, "migrations")
	if err != nil {
		return err
	}
	var b strings.Builder
	b.WriteString("begin isolation level read committed read write;\n\n")
	for _, step := range all {
		b.WriteString(step.script(m.schema))
	}
	b.WriteString("\ncommit;\n")
	_, err = io.WriteString(w, b.String())
	return err
}

// Validate reports whether this program can work with the schema, and what is missing from it.
func (m *Migrator) Validate(ctx context.Context) error {
	return m.connected(ctx, func(conn *pgx.Conn) error {
		if err := checkSchema(ctx, conn, m.schema); err != nil {
			return err
		}
		return checkObjects(ctx, conn, m.schema)
	})
}

// checkObjects compares the names of relations and functions with those that the migrations create.
func checkObjects(ctx context.Context, q queryer, schema string) error {
	all, err := readMigrations(migrationFiles, "migrations")
	if err != nil {
		return err
	}
	want := map[string][]string{schemaRelationsSQL: relationNames(all), schemaFunctionsSQL: functionNames(all)}
	var missing []string
	for query, names := range want {
		found, err := schemaNames(ctx, q, query, schema)
		if err != nil {
			return fmt.Errorf("validate schema %s: %w", schema, err)
		}
		missing = append(missing, slices.DeleteFunc(names, func(name string) bool { return slices.Contains(found, name) })...)
	}
	if len(missing) > 0 {
		slices.Sort(missing)
		return fmt.Errorf("validate schema %s: %w: missing: %s", schema, ErrSchemaDrift, strings.Join(missing, ", "))
	}
	return nil
}

func (m *Migrator) connected(ctx context.Context, fn func(*pgx.Conn) error) error {
	conn, err := pgx.ConnectConfig(ctx, m.conn.Copy())
	if err != nil {
		return fmt.Errorf("connect to migrate: %w", explainConnect(err))
	}
	// The context may have ended; the server is told good-bye all the same.
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_ = conn.Close(ctx)
	}()
	return fn(conn)
}
