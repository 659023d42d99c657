package pgstore

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outboxrelay/outbox"
)

func newMigrator(t testing.TB, conn *pgx.Conn, schema string) *Migrator {
	t.Helper()
	m, err := NewMigrator(conn.Config(), schema)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// TestMigrateFive: five at once; one does it, the others find it done. In a snapshot from before the lock, which a
// default isolation level would make, they would not.
func TestMigrateFive(t *testing.T) {
	t.Parallel()
	for _, isolation := range []string{"read committed", "repeatable read", "serializable"} {
		t.Run(isolation, func(t *testing.T) {
			t.Parallel()
			conn := connect(t, postgres.Database(t))
			setDefault(t, conn, "default_transaction_isolation = '"+isolation+"'")
			migrateFive(t, newMigrator(t, conn, ""))
		})
	}
}

func migrateFive(t *testing.T, m *Migrator) {
	t.Helper()
	type result struct {
		applied []Migration
		err     error
	}
	results := make(chan result)
	for range 5 {
		go func() {
			applied, err := m.Up(t.Context())
			results <- result{applied, err}
		}()
	}
	did := 0
	for range 5 {
		r := <-results
		if r.err != nil {
			t.Error(r.err)
		}
		if len(r.applied) > 0 {
			did++
		}
	}
	if did != 1 {
		t.Errorf("%d migrated", did)
	}
	if err := m.Validate(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestMigrateCancelled: a migrator that is stopped halfway leaves nothing, and the next one succeeds.
func TestMigrateCancelled(t *testing.T) {
	t.Parallel()
	url := postgres.Database(t)
	conn, observer := connect(t, url), connect(t, url)
	// Somebody holds a schema of that name back, so that the migration stops at its first statement, inside.
	tx := begin(t, observer)
	if _, err := tx.Exec(t.Context(), "create schema outbox"); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- migrateUp(ctx, conn, DefaultSchema) }()
	waitForLock(t, connect(t, url), conn.PgConn().PID())
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := checkSchema(t.Context(), observer, DefaultSchema); !errors.Is(err, outbox.ErrSchemaMissing) {
		t.Errorf("%v", err)
	}
	if err := migrateUp(t.Context(), observer, DefaultSchema); err != nil {
		t.Error(err)
	}
}

// TestMigrateDownAndUp: to nothing and back, with a reserved word as the schema's name, and what was made works.
func TestMigrateDownAndUp(t *testing.T) {
	t.Parallel()
	conn := connect(t, postgres.Database(t))
	m := newMigrator(t, conn, "user")
	for range 2 {
		if _, err := m.Up(t.Context()); err != nil {
			t.Fatal(err)
		}
		p := newPublisher(t, &PublishConfig{Schema: "user"})
		publish(t, conn, p, outbox.Message{Topic: "t", DedupKey: "d"}, outbox.Message{Topic: "t", Delay: time.Hour})
		publish(t, conn, p, outbox.Message{Topic: "t"})
		exec(t, conn, `select "user".publish('t', ''), "user".set_notify('trigger'), "user".publish('u', '')`)
		if n := value[int](t, conn, `select count(*) from "user".message`); n != 4 {
			t.Errorf("%d messages", n)
		}
		err := m.Down(t.Context(), 0)
		if !errors.Is(err, ErrNotEmpty) || !strings.Contains(err.Error(), "4 ready, 1 waiting") {
			t.Errorf("%v", err)
		}
		if err := m.Validate(t.Context()); err != nil {
			t.Error(err)
		}
		exec(t, conn, `truncate "user".message, "user".waiting`)
		if err := m.Down(t.Context(), 0); err != nil {
			t.Fatal(err)
		}
		if value[bool](t, conn, `select to_regnamespace('"user"') is not null`) {
			t.Error("the schema is still there")
		}
		if err := m.Down(t.Context(), 0); !errors.Is(err, outbox.ErrSchemaMissing) {
			t.Errorf("down again: %v", err)
		}
	}
	var field *outbox.FieldError
	if err := m.Down(t.Context(), 99); !errors.As(err, &field) {
		t.Errorf("down to 99: %v", err)
	}
}

// TestMigrateDownLocksPublishersOut: a message that is being published counts.
func TestMigrateDownLocksPublishersOut(t *testing.T) {
	t.Parallel()
	url := migratedDatabase(t)
	conn, down := connect(t, url), connect(t, url)
	tx := begin(t, conn)
	if _, err := newPublisher(t, nil).Publish(t.Context(), tx, outbox.Message{Topic: "t"}); err != nil {
		t.Fatal(err)
	}
	done := make(chan error)
	go func() { done <- migrateDown(t.Context(), down, DefaultSchema, 0) }()
	waitForLock(t, connect(t, url), down.PgConn().PID())
	commit(t, tx)
	if err := <-done; !errors.Is(err, ErrNotEmpty) {
		t.Errorf("%v", err)
	}
}

func TestMigrateRefusesForeignRelations(t *testing.T) {
	t.Parallel()
	conn := connect(t, postgres.Database(t))
	exec(t, conn, `create schema outbox; create table outbox.message (x int); create view outbox.migration as select 1;
		create table outbox.harmless (x int)`)
	err := migrateUp(t.Context(), conn, DefaultSchema)
	if !errors.Is(err, ErrForeignObjects) || !strings.HasSuffix(err.Error(), ": message, migration") {
		t.Errorf("%v", err)
	}
	exec(t, conn, "drop table outbox.message; drop view outbox.migration")
	if err := migrateUp(t.Context(), conn, DefaultSchema); err != nil {
		t.Fatal(err)
	}
	err = migrateDown(t.Context(), conn, DefaultSchema, 0)
	if !errors.Is(err, ErrForeignObjects) || !strings.HasSuffix(err.Error(), ": harmless") {
		t.Errorf("%v", err)
	}
	exec(t, conn, "drop table outbox.harmless")
	if err := migrateDown(t.Context(), conn, DefaultSchema, 0); err != nil {
		t.Error(err)
	}
}

// TestMigrateAnyDefaults: the defaults of a role change nothing, and nothing of the migration stays on the session.
func TestMigrateAnyDefaults(t *testing.T) {
	t.Parallel()
	const session = "select string_agg(name || setting, ' ' order by name) from pg_settings where name like '%timeout' or name = 'client_min_messages'"
	for _, setting := range []string{
		"default_transaction_read_only = on", "default_transaction_isolation = serializable", "search_path = ''",
		"check_function_bodies = off", "datestyle = 'German'", "lock_timeout = '20min'",
	} {
		t.Run(setting, func(t *testing.T) {
			t.Parallel()
			url := postgres.Database(t)
			admin := connect(t, url)
			setDefault(t, admin, setting)
			conn := connect(t, url)
			before := value[string](t, conn, session)
			if err := migrateUp(t.Context(), conn, DefaultSchema); err != nil {
				t.Fatal(err)
			}
			if value[string](t, conn, session) != before {
				t.Error("the session's settings have changed")
			}
			if n := value[int](t, admin, "select count(*) from pg_locks where locktype = 'advisory' and database = (select oid from pg_database where datname = current_database())"); n != 0 {
				t.Errorf("%d advisory locks stay", n)
			}
		})
	}
}

// setDefault changes a default of the connections that are made to the database from now on.
func setDefault(t testing.TB, conn *pgx.Conn, setting string) {
	t.Helper()
	exec(t, conn, "alter database "+value[string](t, conn, "select quote_ident(current_database())")+" set "+setting)
}

// TestMigrateWaitsLongerThanDefaults: short time-outs of a role do not end the wait for another migrator.
func TestMigrateWaitsLongerThanDefaults(t *testing.T) {
	t.Parallel()
	url := postgres.Database(t)
	first := connect(t, url)
	setDefault(t, first, "statement_timeout = '500ms'")
	setDefault(t, first, "lock_timeout = '500ms'")
	tx := begin(t, first)
	if _, err := tx.Exec(t.Context(), migrateLockSQL); err != nil {
		t.Fatal(err)
	}
	second := connect(t, url)
	done := make(chan error)
	go func() { done <- migrateUp(t.Context(), second, DefaultSchema) }()
	waitForLock(t, first, second.PgConn().PID())
	// Time that passes is what is tested here.
	if _, err := tx.Exec(t.Context(), "select pg_sleep(1)"); err != nil {
		t.Fatal(err)
	}
	commit(t, tx)
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// TestMigrateByOwner: an owner of a schema that was made in advance needs no right to create schemas.
func TestMigrateByOwner(t *testing.T) {
	t.Parallel()
	conn := connect(t, postgres.Database(t))
	role := "outbox_test_owner_" + value[string](t, conn, "select current_database()")
	role = pgx.Identifier{role}.Sanitize()
	exec(t, conn, "create role "+role)
	defer exec(t, conn, "reset role; drop owned by "+role+"; drop role "+role)
	exec(t, conn, "create schema outbox authorization "+role)
	exec(t, conn, "set role "+role)
	if err := migrateUp(t.Context(), conn, DefaultSchema); err != nil {
		t.Error(err)
	}
}

func TestCheckSchemaVersions(t *testing.T) {
	t.Parallel()
	conn := connect(t, migratedDatabase(t))
	if err := checkSchema(t.Context(), conn, DefaultSchema); err != nil {
		t.Fatal(err)
	}
	exec(t, conn, "insert into outbox.migration (version, name, min_compatible) values (900, 'compatible', 1)")
	if err := checkSchema(t.Context(), conn, DefaultSchema); err != nil {
		t.Errorf("a newer schema that this program can work with: %v", err)
	}
	m := newMigrator(t, conn, "")
	list, err := m.List(t.Context())
	if err != nil || len(list) < 2 || list[len(list)-1].Version != 900 || list[0].AppliedAt.IsZero() {
		t.Errorf("List = %+v, %v", list, err)
	}
	if err := m.Down(t.Context(), 0); !errors.Is(err, outbox.ErrSchemaTooNew) {
		t.Errorf("down: %v", err)
	}
	exec(t, conn, "insert into outbox.migration (version, name, min_compatible) values (901, 'incompatible', 901)")
	for name, err := range map[string]error{
		"check": checkSchema(t.Context(), conn, DefaultSchema),
		"up":    migrateUp(t.Context(), conn, DefaultSchema),
	} {
		if !errors.Is(err, outbox.ErrSchemaTooNew) {
			t.Errorf("%s: %v", name, err)
		}
	}
	exec(t, conn, "truncate outbox.migration")
	if err := checkSchema(t.Context(), conn, DefaultSchema); !errors.Is(err, outbox.ErrSchemaMissing) || !strings.Contains(err.Error(), "outbox migrate up") {
		t.Errorf("no version: %v", err)
	}
}

func TestListWithoutSchema(t *testing.T) {
	t.Parallel()
	list, err := newMigrator(t, connect(t, postgres.Database(t)), "").List(t.Context())
	if err != nil || len(list) == 0 || !list[0].AppliedAt.IsZero() || list[0].Name != "core" {
		t.Errorf("List = %+v, %v", list, err)
	}
}

// TestPrint: what is printed, run by hand, is what Up makes.
func TestPrint(t *testing.T) {
	t.Parallel()
	conn := connect(t, postgres.Database(t))
	m := newMigrator(t, conn, "by_hand")
	var printed strings.Builder
	if err := m.Print(&printed); err != nil {
		t.Fatal(err)
	}
	exec(t, conn, printed.String())
	if err := m.Validate(t.Context()); err != nil {
		t.Error(err)
	}
	if applied, err := m.Up(t.Context()); err != nil || len(applied) != 0 {
		t.Errorf("Up = %v, %v", applied, err)
	}
}

func TestValidateFindsMissing(t *testing.T) {
	t.Parallel()
	conn := connect(t, migratedDatabase(t))
	exec(t, conn, "drop table outbox.control; drop function outbox.publish_json")
	err := newMigrator(t, conn, "").Validate(t.Context())
	if err == nil || !strings.HasSuffix(err.Error(), "missing: control, publish_json") {
		t.Errorf("%v", err)
	}
}

func TestReadMigrations(t *testing.T) {
	file := &fstest.MapFile{Data: []byte("select 1;")}
	ms, err := readMigrations(fstest.MapFS{
		"m/0001_a/200_b.sql": file, "m/0001_a/100_z.sql": file, "m/0001_a/down.sql": file,
		"m/0002_b/100_a.sql": file, "m/0002_b/down.sql": file,
	}, "m")
	if err != nil || len(ms) != 2 || ms[0].up[0].name != "100_z.sql" || ms[1].minCompatible() != 1 {
		t.Errorf("%+v, %v", ms, err)
	}
	for want, files := range map[string]fstest.MapFS{
		"is not named like": {"m/first/1.sql": file, "m/first/down.sql": file},
		"follows version 0": {"m/0002_b/1.sql": file, "m/0002_b/down.sql": file},
		"needs at least":    {"m/0001_b/1.sql": file},
		"file does not":     {},
	} {
		if _, err := readMigrations(files, "m"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// TestCreatedNames: the names that guard against foreign relations are those in the catalog.
func TestCreatedNames(t *testing.T) {
	t.Parallel()
	conn := connect(t, migratedDatabase(t))
	all, err := readMigrations(migrationFiles, "migrations")
	if err != nil {
		t.Fatal(err)
	}
	for query, want := range map[string][]string{schemaRelationsSQL: relationNames(all), schemaFunctionsSQL: functionNames(all)} {
		got, err := schemaNames(t.Context(), conn, query, DefaultSchema)
		if err != nil {
			t.Fatal(err)
		}
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("in the catalog %q\nin the files   %q", got, want)
		}
	}
}
