package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/spf13/cobra"

	"github.com/outboxrelay/outbox"
	"github.com/outboxrelay/outbox/internal/spell"
	"github.com/outboxrelay/outbox/pgstore"
)

func (a *app) migrateCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "migrate",
		Short: "Make, change and remove the schema",
		Long: `Make, change and remove the schema of the outbox. A relay does the first two by itself when it starts, unless
database.migrate says otherwise; publishing never does. Any number may run at once.`,
		Example: `  outbox migrate up --database-url postgres://localhost/shop`,
		RunE: func(cmd *cobra.Command, args []string) error {
			const which = "up, down, list, print or validate"
			if len(args) == 0 {
				return errors.New("which? " + which)
			}
			return fmt.Errorf("unknown command %q: must be %s%s", args[0], which, didYouMean(spell.Nearest(args[0], []string{"up", "down", "list", "print", "validate"})))
		},
	}
	cmd.AddCommand(a.migrateUp(), a.migrateDown(), a.migrateList(), a.migratePrint(), a.migrateValidate())
	return cmd
}

// migrator changes the schema of an outbox of either kind.
type migrator interface {
	List(ctx context.Context) ([]pgstore.Migration, error)
	Up(ctx context.Context) ([]pgstore.Migration, error)
	Down(ctx context.Context, target int) error
	Validate(ctx context.Context) error
}

// migration makes a subcommand that has a migrator; makes: it makes the SQLite file that is not there.
func (a *app) migration(cmd *cobra.Command, makes func() bool, do func(ctx context.Context, m migrator) error) *cobra.Command {
	cmd.Args = cobra.NoArgs
	addSettings(cmd, scopeDatabase)
	cmd.RunE = action(func(cmd *cobra.Command, _ []string) error {
		c, err := a.load(cmd)
		if err != nil {
			return err
		}
		m, closeAll, err := c.openMigrator(makes())
		if err != nil {
			return err
		}
		defer closeAll()
		return do(cmd.Context(), m)
	})
	return cmd
}

func (c *config) openMigrator(create bool) (m migrator, closeAll func(), err error) {
	path, err := c.sqliteFile()
	if err != nil {
		return nil, nil, err
	}
	if path != "" {
		store, db, err := c.openSQLite(path, create, nil)
		return sqliteMigrator{store}, func() { _ = db.Close() }, err // what is not committed is not made
	}
	conn, err := c.connConfig()
	if err != nil {
		return nil, nil, err
	}
	m, err = pgstore.NewMigrator(conn, c.store.Schema)
	return m, func() {}, err
}

func never() bool { return false }

// pending are those that are not applied.
func pending(list []pgstore.Migration) (steps []pgstore.Migration) {
	for _, step := range list {
		if step.AppliedAt.IsZero() {
			steps = append(steps, step)
		}
	}
	return steps
}

func (a *app) migrateUp() *cobra.Command {
	var dryRun bool
	cmd := a.migration(&cobra.Command{
		Use:     "up",
		Short:   "Apply the migrations that are missing",
		Example: `  outbox migrate up --dry-run --database-url postgres://localhost/shop`,
	}, func() bool { return !dryRun }, func(ctx context.Context, m migrator) error {
		if dryRun {
			list, err := m.List(ctx)
			if err != nil {
				return err
			}
			return a.printMigrations(pending(list), "would apply")
		}
		applied, err := m.Up(ctx)
		if err != nil {
			return err
		}
		return a.printMigrations(applied, "applied")
	})
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "print what would be applied")
	return cmd
}

type migrationJSON struct {
	Version   int        `json:"version"`
	Name      string     `json:"name"`
	AppliedAt *time.Time `json:"applied_at,omitempty"`
}

// printMigrations prints what was done, or is to be done.
func (a *app) printMigrations(steps []pgstore.Migration, done string) error {
	list := []migrationJSON{}
	for _, step := range steps {
		list = append(list, newMigration(step))
	}
	if a.json {
		return a.printJSON(map[string]any{"migrations": list})
	}
	for _, step := range steps {
		a.printf("%s %04d_%s\n", done, step.Version, step.Name)
	}
	if len(steps) == 0 {
		a.tell("nothing to do")
	}
	return nil
}

func newMigration(step pgstore.Migration) migrationJSON {
	j := migrationJSON{Version: step.Version, Name: step.Name}
	if !step.AppliedAt.IsZero() {
		at := utc(step.AppliedAt)
		j.AppliedAt = &at
	}
	return j
}

func (a *app) migrateDown() *cobra.Command {
	var target int
	var yes bool
	cmd := a.migration(&cobra.Command{
		Use:   "down",
		Short: "Take migrations back",
		Long:  `Take migrations back, the newest first, down to the version of --target. It refuses while the outbox holds messages.`,
		Example: `  # Remove the schema:
  outbox migrate down --target 0 --yes --database-url postgres://localhost/shop`,
	}, never, func(ctx context.Context, m migrator) error {
		if !yes {
			return failf(exitUsage, "this removes tables: give --yes")
		}
		if err := m.Down(ctx, target); err != nil {
			return err
		}
		if a.json {
			return a.printJSON(map[string]int{"version": target})
		}
		a.tell("the schema is at version %d", target)
		return nil
	})
	cmd.Flags().IntVar(&target, "target", 0, "the `version` to go back to; 0 removes the schema")
	cmd.Flags().BoolVar(&yes, "yes", false, "do it")
	run := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if !cmd.Flags().Changed("target") {
			return errors.New("--target: must say to which version to go back; 0 removes the schema")
		}
		return run(cmd, args)
	}
	return cmd
}

func (a *app) migrateList() *cobra.Command {
	return a.migration(&cobra.Command{
		Use:     "list",
		Short:   "List the migrations and when each was applied",
		Example: `  outbox migrate list --database-url postgres://localhost/shop`,
	}, never, func(ctx context.Context, m migrator) error {
		list, err := m.List(ctx)
		if err != nil {
			return err
		}
		if a.json {
			return a.printMigrations(list, "")
		}
		rows := [][]string{{"VERSION", "NAME", "APPLIED"}}
		for _, step := range list {
			applied := "no"
			if !step.AppliedAt.IsZero() {
				applied = utc(step.AppliedAt).Format(time.RFC3339)
			}
			rows = append(rows, []string{strconv.Itoa(step.Version), step.Name, applied})
		}
		return a.printTable(rows)
	})
}

// migratePrint needs no database: it prints for whoever runs the SQL themselves.
func (a *app) migratePrint() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "print",
		Short:   "Print the SQL that makes the schema",
		Long:    `Print the SQL that makes the schema, for those who run it with their own migration tool. Nothing is connected to.`,
		Example: `  outbox migrate print --database-schema outbox | psql shop`,
		Args:    cobra.NoArgs,
	}
	addSettings(cmd, scopeDatabase)
	cmd.RunE = action(func(cmd *cobra.Command, _ []string) error {
		c, err := a.load(cmd)
		if err != nil {
			return err
		}
		if err := c.refuseSQLite(); err != nil {
			return err
		}
		none, err := pgx.ParseConfig("")
		if err != nil {
			return err
		}
		m, err := pgstore.NewMigrator(none, c.store.Schema)
		if err != nil {
			return err
		}
		return m.Print(a.stdout)
	})
	return cmd
}

func (a *app) migrateValidate() *cobra.Command {
	return a.migration(&cobra.Command{
		Use:   "validate",
		Short: "Tell whether the schema is complete and fits this program",
		Long: `Tell whether the schema is complete and fits this program.

Exit codes: 0 it does, 1 the database could not be asked, 4 it does not.`,
		Example: `  outbox migrate validate --database-url postgres://localhost/shop`,
	}, never, func(ctx context.Context, m migrator) error {
		err := m.Validate(ctx)
		if a.json {
			text := ""
			if err != nil {
				text = err.Error()
			}
			if err := a.printJSON(map[string]any{"valid": err == nil, "problem": text}); err != nil {
				return err
			}
		}
		if errors.Is(err, outbox.ErrSchemaMissing) || errors.Is(err, outbox.ErrSchemaTooNew) || errors.Is(err, pgstore.ErrSchemaDrift) {
			return &failure{exitUnhealthy, err}
		}
		if err == nil && !a.json {
			a.tell("the schema is complete")
		}
		return err
	})
}
