package pgstore

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outboxrelay/outbox"
	"github.com/outboxrelay/outbox/internal/devservices/pgdev"
	"github.com/outboxrelay/outbox/internal/devservices/pgtest"
)

// traffic is programs that publish in every way, several statements in a transaction and in any order. None may fail.
type traffic struct {
	t         *testing.T
	committed atomic.Int64
	longest   atomic.Int64 // that one of them has waited for a lock, in microseconds
	stop      context.CancelFunc
	done      sync.WaitGroup
}

func publishMuch(t *testing.T, url string) *traffic {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	r := &traffic{t: t, stop: stop}
	p := newPublisher(t, nil)
	for i := range 4 {
		conn := connect(t, url+"&application_name=publisher")
		r.done.Go(func() { r.publish(ctx, conn, p, i) })
	}
	observer := connect(t, url)
	r.done.Go(func() { r.watch(ctx, observer) })
	t.Cleanup(r.end)
	return r
}

func (r *traffic) end() {
	r.stop()
	r.done.Wait()
}

func (r *traffic) publish(ctx context.Context, conn *pgx.Conn, p *Publisher, publisher int) {
	for n := 0; ctx.Err() == nil; n++ {
		ways := []func(pgx.Tx) error{
			func(tx pgx.Tx) error {
				_, err := tx.Exec(r.t.Context(), "insert into outbox.message (id, topic, payload) values (gen_random_uuid(), 'load.sql', '')")
				return err
			},
			func(tx pgx.Tx) error {
				_, err := p.Publish(r.t.Context(), tx, outbox.Message{Topic: topicReady, Key: fmt.Sprint("k", publisher), Payload: fmt.Append(nil, n)})
				return err
			},
			func(tx pgx.Tx) error {
				_, err := p.Publish(r.t.Context(), tx, outbox.Message{Topic: "load.later", Delay: time.Millisecond})
				return err
			},
			func(tx pgx.Tx) error {
				_, err := p.Publish(r.t.Context(), tx, outbox.Message{Topic: "load.once", DedupKey: fmt.Sprint(publisher, n)})
				return err
			},
		}
		rand.Shuffle(len(ways), func(i, j int) { ways[i], ways[j] = ways[j], ways[i] })
		err := pgx.BeginFunc(r.t.Context(), conn, func(tx pgx.Tx) error {
			for _, way := range ways {
				if err := way(tx); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			r.t.Errorf("a publisher failed: %v", err)
			return
		}
		r.committed.Add(1)
		_ = rest(ctx, 5*time.Millisecond)
	}
}

// watch notes how long publishers wait.
func (r *traffic) watch(ctx context.Context, conn *pgx.Conn) {
	const query = `select coalesce(max(extract(epoch from clock_timestamp() - l.waitstart) * 1000000), 0)::bigint
		from pg_locks l join pg_stat_activity a using (pid)
		where not l.granted and a.datname = current_database() and a.application_name = 'publisher'`
	for ctx.Err() == nil {
		var waited int64
		if err := conn.QueryRow(r.t.Context(), query).Scan(&waited); err != nil {
			r.t.Error(err)
			return
		}
		r.longest.Store(max(r.longest.Load(), waited))
		_ = rest(ctx, 10*time.Millisecond)
	}
}

// goesOn waits until some more is published.
func (r *traffic) goesOn() {
	r.t.Helper()
	before := r.committed.Load()
	waitUntil(r.t, "publishers go on", func() bool { return r.committed.Load() > before+20 })
}

// TestMigrateUnderLoad: while a migration changes the tables that publishers and relays use, nobody fails, and no publisher waits for a lock
// for longer than the migration may. A transaction that was forgotten keeps the migration off, which says whose it is; once it has
// ended the migration goes through.
func TestMigrateUnderLoad(t *testing.T) {
	t.Parallel()
	for _, engine := range []Engine{EnginePoll, EngineWAL} {
		t.Run(engine.String(), func(t *testing.T) {
			t.Parallel()
			url := migratedDatabase(t)
			u := upgrade(t, url, &Config{Engine: engine})
			defer u.end()
			load := publishMuch(t, url)
			waitUntil(t, "the relay delivers", func() bool { return len(u.got(topicReady)) > 0 })

			forgotten := connect(t, url+"&application_name=forgetful")
			tx := begin(t, forgotten)
			if _, err := tx.Exec(t.Context(), "insert into outbox.message (id, topic, payload) values (gen_random_uuid(), 'load.late', '')"); err != nil {
				t.Fatal(err)
			}
			before := load.committed.Load()
			ctx, cancel := context.WithTimeout(t.Context(), 6*time.Second)
			_, err := applyMissing(ctx, connect(t, url), DefaultSchema, withNext(t))
			cancel()
			if !errors.Is(err, ErrTablesInUse) {
				t.Fatalf("beside an open transaction: %v", err)
			}
			for _, part := range []string{fmt.Sprintf(`session %d (user "postgres", app "forgetful", idle in transaction) has message`, forgotten.PgConn().PID()),
				fmt.Sprintf("select pg_terminate_backend(%d);", forgotten.PgConn().PID())} {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("the error lacks %q: %v", part, err)
				}
			}
			if n := load.committed.Load() - before; n < 20 {
				t.Errorf("%d transactions were published while the migration tried", n)
			}
			if n := value[int](t, connect(t, url), "select count(*) from outbox.migration"); n != 1 {
				t.Errorf("%d migrations are applied", n)
			}
			load.goesOn()

			migrator := connect(t, url)
			done := make(chan error, 1)
			go func() {
				_, err := applyMissing(t.Context(), migrator, DefaultSchema, withNext(t))
				done <- err
			}()
			waitForLock(t, connect(t, url), migrator.PgConn().PID())
			commit(t, tx)
			if err := <-done; err != nil {
				t.Fatal(err)
			}
			if n := value[int](t, connect(t, url), "select count(*) from outbox.migration"); n != 2 {
				t.Errorf("%d migrations are applied", n)
			}
			load.goesOn()
			load.end()
			waited := time.Duration(load.longest.Load()) * time.Microsecond
			t.Logf("%d transactions, the longest wait for a lock was %v", load.committed.Load(), waited)
			if waited > 2*longestHold {
				t.Errorf("a publisher has waited for %v", waited)
			}
			conn := connect(t, url)
			left := func() int {
				return value[int](t, conn, "select (select count(*) from outbox.message) + (select count(*) from outbox.waiting)")
			}
			// However slow the machine is, it goes on. A claim whose answer is lost is given back by the second heartbeat after that, of which there are
			// three in a lease of 30 s.
			for n := left(); n > 0; n = left() {
				waitWithin(t, time.Minute, fmt.Sprintf("fewer than %d messages are left", n), func() bool { return left() < n })
			}
			if got, want := len(u.got("load.sql")), int(load.committed.Load()); got != want {
				t.Errorf("%d of %d messages were delivered", got, want)
			}
		})
	}
}

// TestMigrateWaitsForDeadlockChecks: a session has nearly waited long enough for another to look for a deadlock. Would the migration take its
// tables now, both could come to wait for it, and the first one find the deadlock and fail.
func TestMigrateWaitsForDeadlockChecks(t *testing.T) {
	t.Parallel()
	url := migratedDatabase(t)
	observer := connect(t, url)
	setDefault(t, observer, "deadlock_timeout = '4s'")
	first, second, migrator := connect(t, url), connect(t, url), connect(t, url)
	waiting, holding := begin(t, first), begin(t, second)
	must := func(tx pgx.Tx, sql string) {
		t.Helper()
		if _, err := tx.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	must(holding, "select pg_advisory_xact_lock(1)")
	must(waiting, "insert into outbox.message (id, topic, payload) values (gen_random_uuid(), 't', '')")
	waited, migrated := make(chan error, 1), make(chan error, 1)
	go func() {
		_, err := waiting.Exec(t.Context(), "select pg_advisory_xact_lock(1)")
		waited <- err
	}()
	waitForLock(t, observer, first.PgConn().PID())
	reaches := func(age time.Duration) {
		waitUntil(t, "the session has waited for "+age.String(), func() bool {
			return value[bool](t, observer, "select clock_timestamp() - waitstart > $1 from pg_locks where pid = $2 and not granted", age, first.PgConn().PID())
		})
	}
	reaches(3600 * time.Millisecond)
	go func() {
		_, err := applyMissing(t.Context(), migrator, DefaultSchema, withNext(t))
		migrated <- err
	}()
	reaches(3800 * time.Millisecond)
	must(holding, "select from outbox.control")
	must(holding, "select pg_sleep(0.5)") // past the look
	commit(t, holding)
	if err := <-waited; err != nil {
		t.Errorf("a publisher failed: %v", err)
	}
	commit(t, waiting)
	if err := <-migrated; err != nil {
		t.Error(err)
	}
}

// TestMigrateInterruptsAutovacuum: a vacuum that would take hours gives way.
func TestMigrateInterruptsAutovacuum(t *testing.T) {
	t.Parallel()
	server := pgtest.Server(t, pgdev.Config{Settings: map[string]string{"autovacuum_naptime": "1s"}})
	name, err := server.Cluster().CreateFrom(t.Context(), "migrated", migrateDatabase)
	if err != nil {
		t.Fatal(err)
	}
	conn := connect(t, server.URL(name))
	exec(t, conn, `alter table outbox.dead set (autovacuum_vacuum_cost_delay = 100, autovacuum_vacuum_cost_limit = 1, autovacuum_vacuum_threshold = 1,
		autovacuum_vacuum_scale_factor = 0)`)
	exec(t, conn, `insert into outbox.dead (seq, id, topic, payload, headers, published_at, generation, attempts, lapses, holds)
		select g, gen_random_uuid(), 't', repeat('x', 500)::bytea, '{}', now(), 0, 1, 0, false from generate_series(1, 20000) g`)
	exec(t, conn, "delete from outbox.dead")
	waitUntil(t, "autovacuum works on the table", func() bool {
		return value[bool](t, conn, `select exists (select from pg_stat_activity where backend_type = 'autovacuum worker' and query like '%outbox.dead%')`)
	})
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if _, err := applyMissing(ctx, connect(t, server.URL(name)), DefaultSchema, withNext(t)); err != nil {
		t.Error(err)
	}
}

// TestMigrateNamesPreparedTransactions: they have no session, and outlive the server.
func TestMigrateNamesPreparedTransactions(t *testing.T) {
	t.Parallel()
	url := migratedDatabase(t)
	conn := connect(t, url)
	name := "left o'ver " + value[string](t, conn, "select current_database()")
	exec(t, conn, "begin; insert into outbox.message (id, topic, payload) values (gen_random_uuid(), 't', ''); prepare transaction "+quoteText(name))
	defer exec(t, conn, "rollback prepared "+quoteText(name))
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	_, err := applyMissing(ctx, connect(t, url), DefaultSchema, withNext(t))
	if want := "rollback prepared " + quoteText(name) + ";"; !errors.Is(err, ErrTablesInUse) || !strings.Contains(err.Error(), want) {
		t.Errorf("%v, want %s", err, want)
	}
}

func quoteText(text string) string { return "'" + strings.ReplaceAll(text, "'", "''") + "'" }

// TestMigrateWithoutRights: a role that may not see the sessions of others still names the one that is in the way.
func TestMigrateWithoutRights(t *testing.T) {
	t.Parallel()
	url := postgres.Database(t)
	admin, conn := connect(t, url), connect(t, url)
	role := pgx.Identifier{"outbox_test_migrator_" + value[string](t, admin, "select current_database()")}.Sanitize()
	exec(t, admin, "create role "+role+"; create schema outbox authorization "+role)
	defer exec(t, admin, "drop owned by "+role+"; drop role "+role)
	exec(t, conn, "set role "+role)
	if err := migrateUp(t.Context(), conn, DefaultSchema); err != nil {
		t.Fatal(err)
	}
	tx := begin(t, admin)
	if _, err := tx.Exec(t.Context(), "lock table outbox.archive in access share mode"); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	_, err := applyMissing(ctx, conn, DefaultSchema, withNext(t))
	if want := fmt.Sprintf("select pg_terminate_backend(%d);", admin.PgConn().PID()); !errors.Is(err, ErrTablesInUse) || !strings.Contains(err.Error(), want) {
		t.Errorf("%v, want %s", err, want)
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func TestAlteredTables(t *testing.T) {
	text := `alter table outbox.a1 add column x int;
alter table only outbox.b2 drop column x;
alter table if exists outbox.c3 drop column x;
alter index outbox.d4 rename to e;
drop table outbox.e5;
drop index if exists outbox.f6;
create index on outbox.g7 (x);
create unique index named on outbox.h8 (x);
create trigger named after insert on outbox.i9 for each statement execute function outbox.f();
create or replace function outbox.f() returns trigger language plpgsql as $$
begin
    update outbox.not_this set x = 1;
end
$$;
truncate outbox.j10, outbox.not_seen;
update outbox.k11 set x = 1;
delete from outbox.l12;
insert into outbox.not_that values (1);
comment on table outbox.nor_that is 'update outbox.x';
drop trigger named on outbox.m13;
`
	ms := []migration{{up: []sqlFile{{"1.sql", text}, {"2.sql", "alter table outbox.a1 add column y int;"}}, down: "drop table outbox.n14;"}}
	want := []string{"a1", "b2", "c3", "d4", "e5", "f6", "g7", "h8", "i9", "j10", "k11", "l12", "m13"}
	if got := alteredTables(ms); !slices.Equal(got, sorted(want)) {
		t.Errorf("%q", got)
	}
	if got := restoredTables(ms); !slices.Equal(got, []string{"n14", "message", "waiting", "dead"}) {
		t.Errorf("%q", got)
	}
	if got := restoredTables([]migration{{down: "drop schema outbox cascade;"}}); got != nil {
		t.Errorf("%q", got)
	}
}

func sorted(list []string) []string {
	slices.Sort(list)
	return list
}

// TestMigrationsLockAtOnce: no migration comes to lock a table against publishers and relays that it has not locked at the beginning.
func TestMigrationsLockAtOnce(t *testing.T) {
	t.Parallel()
	conn := connect(t, migratedDatabase(t))
	for _, m := range withNext(t)[1:] {
		if late := lockedLater(t, conn, m); len(late) > 0 {
			t.Errorf("migration %d %s locks %q too late", m.version, m.name, late)
		}
	}
	hidden := migration{version: 3, name: "hidden", up: []sqlFile{{"1.sql", `do $$ begin
    alter table outbox.dead add column hidden int;
end $$;
alter table outbox.control add column shown int;`}}}
	if late := lockedLater(t, conn, hidden); !slices.Equal(late, []string{"dead"}) {
		t.Errorf("of a migration that hides it, %q was found", late)
	}
}

// lockedLater returns the tables that a migration's script locks by itself.
func lockedLater(t *testing.T, conn *pgx.Conn, m migration) (late []string) {
	t.Helper()
	tx := begin(t, conn)
	defer func() { _ = tx.Rollback(t.Context()) }()
	locked := func() map[string]bool {
		rows, err := tx.Query(t.Context(), `select distinct c.relname::text from pg_locks l join pg_class c on c.oid = l.relation
			where l.pid = pg_backend_pid() and c.relkind in ('r', 'p') and c.relnamespace = 'outbox'::regnamespace
			  and l.mode in ('ShareLock', 'ShareRowExclusiveLock', 'ExclusiveLock', 'AccessExclusiveLock')`)
		if err != nil {
			t.Fatal(err)
		}
		names, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			t.Fatal(err)
		}
		set := map[string]bool{}
		for _, name := range names {
			set[name] = true
		}
		return set
	}
	there := map[string]bool{}
	for _, name := range values[string](t, conn, "select relname::text from pg_class where relnamespace = 'outbox'::regnamespace and relkind in ('r', 'p')") {
		there[name] = true
	}
	err := withTables(t.Context(), tx, DefaultSchema, alteredTables([]migration{m}), func(tx pgx.Tx) error {
		before := locked()
		if _, err := tx.Exec(t.Context(), m.script(DefaultSchema)); err != nil {
			return err
		}
		for name := range locked() {
			if there[name] && !before[name] {
				late = append(late, name)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return sorted(late)
}
