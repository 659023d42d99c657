package sqlitestore

import (
	"context"
	"database/sql"
	"embed"
	"fmt"
	"io/fs"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/outboxrelay/outbox"
)

//go:embed migrations
var migrationFiles embed.FS

// Migration is a step of the tables' versions.
type Migration struct {
	Version   int
	Name      string
	AppliedAt time.Time // zero: not applied
	up        string
	down      string
}

// loadMigrations reads all migrations in the order of their versions.
func loadMigrations(prefix string) ([]Migration, error) {
	dirs, err := fs.ReadDir(migrationFiles, "migrations")
	if err != nil {
		return nil, err
	}
	var all []Migration
	for _, dir := range dirs {
		number, name, _ := strings.Cut(dir.Name(), "_")
		version, err := strconv.Atoi(number)
		if err != nil || version != len(all)+1 {
			return nil, fmt.Errorf("migration %s is not number %d", dir.Name(), len(all)+1)
		}
		m := Migration{Version: version, Name: name}
		files, err := fs.Glob(migrationFiles, "migrations/"+dir.Name()+"/*.sql")
		if err != nil {
			return nil, err
		}
		for _, file := range files {
			text, err := migrationFiles.ReadFile(file)
			if err != nil {
				return nil, err
			}
			if strings.HasSuffix(file, "/down.sql") {
				m.down = render(string(text), prefix)
			} else {
				m.up += render(string(text), prefix)
			}
		}
		all = append(all, m)
	}
	return all, nil
}

// Prepare makes or checks the tables, as configured; see outbox.Preparer.
func (s *Store) Prepare(ctx context.Context) error {
	switch s.cfg.Migrate {
	case MigrateOff:
		return nil
	case MigrateCheck:
		return s.checkVersion(ctx)
	}
	return s.Migrate(ctx)
}

// Migrate applies missing migrations, all in one transaction, and puts the file into WAL mode, in which readers and the
// writer do not wait for each other. Any number of processes may call it at once. It refuses a file in which the outbox's
// names belong to something else.
func (s *Store) Migrate(ctx context.Context) error {
	all, err := loadMigrations(s.cfg.Prefix)
	if err != nil {
		return err
	}
	if err := s.useWAL(ctx); err != nil {
		return fmt.Errorf("migrate: %w", err)
	}
	return s.migrating(ctx, "migrate", func(t *tx) error {
		applied, err := t.applied()
		if err != nil {
			return err
		}
		if err := checkKnown(applied, all); err != nil {
			return err
		}
		if len(applied) == 0 {
			if err := t.refuseForeign(all); err != nil {
				return err
			}
			if _, err := t.exec("migration_table"); err != nil {
				return err
			}
		}
		for _, m := range all[len(applied):] {
			if _, err := t.conn.ExecContext(ctx, m.up); err != nil {
				return fmt.Errorf("migration %d %s: %w", m.Version, m.Name, err)
			}
			if _, err := t.exec("note_migration", m.Version, m.Name); err != nil {
				return err
			}
		}
		return nil
	})
}

// MigrateDown takes the outbox out of the file. It refuses while there are messages.
func (s *Store) MigrateDown(ctx context.Context) error {
	all, err := loadMigrations(s.cfg.Prefix)
	if err != nil {
		return err
	}
	return s.migrating(ctx, "migrate down", func(t *tx) error {
		applied, err := t.applied()
		if err != nil || len(applied) == 0 {
			return err
		}
		if err := checkKnown(applied, all); err != nil {
			return err
		}
		var left int
		if err := t.row("is_empty", nil, &left); err != nil {
			return err
		}
		if left > 0 {
			return fmt.Errorf("there are messages: deliver or discard them first")
		}
		for i := len(applied) - 1; i >= 0; i-- {
			if _, err := t.conn.ExecContext(ctx, all[i].down); err != nil {
				return fmt.Errorf("take back migration %d %s: %w", all[i].Version, all[i].Name, err)
			}
		}
		return nil
	})
}

// Migrations lists all migrations, applied or not.
func (s *Store) Migrations(ctx context.Context) (all []Migration, err error) {
	if all, err = loadMigrations(s.cfg.Prefix); err != nil {
		return nil, err
	}
	err = s.migrating(ctx, "list migrations", func(t *tx) error {
		applied, err := t.applied()
		for i := range min(len(applied), len(all)) {
			all[i].AppliedAt = applied[i].AppliedAt
		}
		return err
	})
	return all, err
}

// migrating is alone, for a file that may have no clock yet.
func (s *Store) migrating(ctx context.Context, doing string, f func(t *tx) error) error {
	if err := s.alone(ctx, f); err != nil {
		return fmt.Errorf("%s: %w", doing, err)
	}
	return nil
}

func (s *Store) checkVersion(ctx context.Context) error {
	all, err := loadMigrations(s.cfg.Prefix)
	if err != nil {
		return err
	}
	return s.migrating(ctx, "check the schema", func(t *tx) error {
		applied, err := t.applied()
		switch {
		case err != nil:
			return err
		case len(applied) < len(all):
			return fmt.Errorf("%w: it has %d of %d migrations; run: outbox migrate up, or Store.Migrate (prefix %s)",
				outbox.ErrSchemaMissing, len(applied), len(all), s.cfg.Prefix)
		}
		return checkKnown(applied, all)
	})
}

// Validate tells whether the tables are complete and fit this program. What is missing is outbox.ErrSchemaMissing; tables of a
// later version are outbox.ErrSchemaTooNew.
func (s *Store) Validate(ctx context.Context) error {
	if err := s.checkVersion(ctx); err != nil {
		return err
	}
	all, err := loadMigrations(s.cfg.Prefix)
	if err != nil {
		return err
	}
	return s.migrating(ctx, "check the schema", func(t *tx) error {
		var missing string
		if err := t.row("missing_names", []any{array(createdBy(all))}, &missing); err != nil {
			return err
		}
		if missing != "" {
			return fmt.Errorf("%w: it lacks %s, which somebody has dropped: restore the file, or make a new one", outbox.ErrSchemaMissing, missing)
		}
		return nil
	})
}

func checkKnown(applied, all []Migration) error {
	if len(applied) > len(all) {
		last := applied[len(applied)-1]
		return fmt.Errorf("%w: it has migration %d %s", outbox.ErrSchemaTooNew, last.Version, last.Name)
	}
	return nil
}

func (t *tx) applied() (list []Migration, err error) {
	var tables int
	if err := t.row("has_migrations", nil, &tables); err != nil || tables == 0 {
		return nil, err
	}
	err = t.rows("migrated", nil, func(rows *sql.Rows) error {
		var m Migration
		var at int64
		if err := rows.Scan(&m.Version, &m.Name, &at); err != nil {
			return err
		}
		m.AppliedAt = timeOf(at)
		list = append(list, m)
		return nil
	})
	return list, err
}

// created finds what a migration creates.
var created = regexp.MustCompile(`(?m)^create (?:table|view|index) (\w+)`)

func createdBy(all []Migration) (names []string) {
	for _, m := range all {
		for _, found := range created.FindAllStringSubmatch(m.up, -1) {
			names = append(names, found[1])
		}
	}
	return names
}

func (t *tx) refuseForeign(all []Migration) error {
	var foreign string
	if err := t.row("foreign_tables", []any{array(createdBy(all))}, &foreign); err != nil {
		return err
	}
	if foreign != "" {
		return fmt.Errorf("the file has %s already, which is not this outbox's: choose another prefix", foreign)
	}
	return nil
}

// useWAL is for the file, and stays. A database in memory has no journal, which is fine too.
func (s *Store) useWAL(ctx context.Context) error {
	conn, err := s.db.Conn(ctx)
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	defer conn.Close()
	var mode string
	return retryBusy(ctx, func() error {
		return conn.QueryRowContext(ctx, "pragma journal_mode = wal").Scan(&mode)
	})
}
