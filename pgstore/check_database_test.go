package pgstore

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outboxrelay/outbox"
	"github.com/outboxrelay/outbox/internal/devservices/pgdev"
)

// TestCheckFindsCopy: a database that was made from another one is told apart, whoever looks, and what check says makes it the
// outbox's own.
func TestCheckFindsCopy(t *testing.T) {
	t.Parallel()
	url := migratedDatabase(t) // a copy of a template
	store := newStore(t, url, nil)
	fix := fixes(t, store)["copy"]
	if !strings.HasSuffix(fix, ";") {
		t.Fatalf("fix %q", fix)
	}
	exec(t, connect(t, url), fix)
	if fix := fixes(t, store)["copy"]; fix != "" {
		t.Errorf("after the fix: %s", fix)
	}
}

// repairs runs the fixes of a check until it finds nothing, and returns them. Each has to be SQL that differs from the last.
func repairs(t *testing.T, store *Store, conn *pgx.Conn, check string) (all []string) {
	t.Helper()
	for len(all) < 5 {
		fix := fixes(t, store)[check]
		if fix == "" {
			return all
		}
		if !strings.HasSuffix(fix, ";") || len(all) > 0 && all[len(all)-1] == fix {
			break
		}
		exec(t, conn, fix)
		all = append(all, fix)
	}
	t.Fatalf("%s is not repaired by %q", check, all)
	return nil
}

// TestCheckFindsArchive: whatever is missing from the archive, what check says makes it whole.
func TestCheckFindsArchive(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		spoil []string
		fixes []string
	}{
		"nothing":               {nil, nil},
		"the next is missing":   {[]string{"drop 1", "drop 2"}, []string{"add_partition"}},
		"none is there":         {[]string{"drop 0", "drop 1", "drop 2"}, []string{"add_partition"}},
		"a hole":                {[]string{"drop 1"}, []string{"add_partition"}},
		"the next was detached": {[]string{"detach 1"}, []string{"rename to", "add_partition"}},
		"no default":            {[]string{"drop default"}, []string{"partition of"}},
		"the default detached":  {[]string{"detach default"}, []string{"attach partition"}},
		"nothing at all":        {[]string{"drop default", "drop 0", "drop 1", "drop 2"}, []string{"partition of", "add_partition"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := originalDatabase(t)
			relay, _ := keepingRelay(t, url)
			conn := connect(t, url)
			names := append(values[string](t, conn, "select name from outbox.partitions()"), "archive_default")
			for _, spoil := range c.spoil {
				verb, which, _ := strings.Cut(spoil, " ")
				table := names[len(names)-1]
				if which != "default" {
					table = names[which[0]-'0']
				}
				if verb == "drop" {
					exec(t, conn, "drop table outbox."+table)
				} else {
					exec(t, conn, "alter table outbox.archive detach partition outbox."+table)
				}
			}
			done := repairs(t, relay.store, conn, "archive")
			if len(done) != len(c.fixes) {
				t.Fatalf("repaired by %q, want %q", done, c.fixes)
			}
			for i, want := range c.fixes {
				if !strings.Contains(done[i], want) {
					t.Errorf("fix %q, want %q in it", done[i], want)
				}
			}
			insert(t, conn, "a", 1, 0)
			relay.settle(t, outbox.Delivered, relay.claim(t, 1)...)
			if n := value[int](t, conn, "select count(*) from outbox.archive where tableoid <> 'outbox.archive_default'::regclass"); n != 1 {
				t.Errorf("%d of 1 messages are in a partition", n)
			}
		})
	}
}

// TestCheckArchiveOff: nobody keeps anything, or no relay has run yet: nothing is missing.
func TestCheckArchiveOff(t *testing.T) {
	t.Parallel()
	url := originalDatabase(t)
	for _, cfg := range []*Config{nil, {KeepDelivered: time.Hour}} {
		if fix := fixes(t, newStore(t, url, cfg))["archive"]; fix != "" {
			t.Errorf("%+v: %s", cfg, fix)
		}
	}
}

// TestCheckFindsVacuum: transactions and prepared ones that keep vacuum from its work, one after the other, whatever their names.
func TestCheckFindsVacuum(t *testing.T) {
	t.Parallel()
	url := originalDatabase(t)
	store, conn := newStore(t, url, &Config{HorizonPatience: time.Second}), connect(t, url)
	const name = `it's "$(reboot)" \; ` + "\n\u0085;"
	literal := "E'" + strings.NewReplacer(`\`, `\\`, "'", "''").Replace(name) + "'"
	exec(t, conn, "begin; select pg_current_xact_id(); prepare transaction "+literal)
	t.Cleanup(func() { // else the database cannot be dropped
		last, err := pgx.Connect(context.Background(), url)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = last.Exec(context.Background(), "rollback prepared "+literal) // if check did not bring it about
		_ = last.Close(context.Background())
	})
	held := connect(t, url)
	exec(t, held, "begin; select pg_current_xact_id()")
	await(t, "they are found", func() bool { return fixes(t, store)["vacuum"] != "" })
	done := []string{}
	await(t, "both are ended by what check says", func() bool {
		if fix := fixes(t, store)["vacuum"]; fix != "" {
			exec(t, conn, fix)
			done = append(done, fix)
		}
		return len(done) >= 2 && fixes(t, store)["vacuum"] == ""
	})
	if !strings.HasPrefix(done[0], "rollback prepared E'it''s") || strings.ContainsFunc(done[0], func(r rune) bool { return r < ' ' || r == '\u0085' }) {
		t.Errorf("ended by %q", done[0])
	}
	if _, err := held.Exec(t.Context(), "select 1"); err == nil {
		t.Error("the session lives")
	}
}

func TestBudget(t *testing.T) {
	for name, c := range map[string]struct {
		b            budget
		need, relays int
		problem      string
	}{
		"no limit":                  {budget{what: "x", limit: -1, used: 1000}, 4, 3, ""},
		"room":                      {budget{what: "x", limit: 100, used: 20}, 4, 3, ""},
		"just enough":               {budget{what: "x", limit: 24, used: 20}, 4, 3, ""},
		"one too few":               {budget{what: "x", limit: 23, used: 20}, 4, 3, "a relay needs 4 connections and 3 are free: x, 20 in use"},
		"over":                      {budget{what: "x", limit: 3, used: 20}, 4, 0, "a relay needs 4 connections and 0 are free: x, 20 in use"},
		"nothing at all":            {budget{what: "x", limit: 0}, 4, 0, "a relay needs 4 connections and 0 are free: x, 0 in use"},
		"they have not opened them": {budget{what: "x", limit: 11, used: 6}, 4, 3, "3 live relays may need 12 connections, 4 each: x"},
	} {
		if got := c.b.problem(c.need, c.relays); got != c.problem {
			t.Errorf("%s: %q, want %q", name, got, c.problem)
		}
		raised := c.b
		if c.problem != "" {
			raised.limit = c.b.enough(c.need, c.relays)
		}
		if got := raised.problem(c.need, c.relays); got != "" {
			t.Errorf("%s: with a limit of %d: %s", name, raised.limit, got)
		}
	}
}

// TestCheckFindsLimits: the limits of role and database, which hold for those who are no superusers.
func TestCheckFindsLimits(t *testing.T) {
	t.Parallel()
	url := originalDatabase(t)
	conn := connect(t, url)
	database := conn.Config().Database
	role := "outbox budget " + database // needs quotes
	exec(t, conn, fmt.Sprintf(`create role %[1]s login connection limit 3; grant all on schema outbox to %[1]s;
		grant all on all tables in schema outbox to %[1]s; grant all on all sequences in schema outbox to %[1]s; grant execute on all functions in schema outbox to %[1]s`, quoteName(role)))
	exec(t, conn, fmt.Sprintf("alter database %s connection limit 8", quoteName(database)))
	cfg, err := pgxpool.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	cfg.ConnConfig.User, cfg.MaxConns = role, 2
	pool, err := pgxpool.NewWithConfig(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	store, err := New(pool, nil)
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		connect(t, url) // with conn and the one before leaves three to the database
	}
	t.Cleanup(func() {
		pool.Close()
		last, err := pgx.Connect(context.Background(), url)
		if err == nil {
			_, err = last.Exec(context.Background(), fmt.Sprintf("drop owned by %[1]s; drop role %[1]s", quoteName(role)))
			_ = last.Close(context.Background())
		}
		if err != nil {
			t.Error(err)
		}
	})
	var texts []string
	for _, f := range store.Check(t.Context()) {
		if f.Check == "connections" && !f.OK {
			texts = append(texts, f.Text)
			exec(t, conn, f.Fix)
		}
	}
	if len(texts) != 2 || !strings.Contains(texts[0], "the role "+role+" may have 3") || !strings.Contains(texts[1], "may have 8") {
		t.Errorf("found %q", texts)
	}
	if fix := fixes(t, store)["connections"]; fix != "" {
		t.Errorf("after the fixes: %s", fix)
	}
}

// TestCheckFindsFullServer: fewer connections are left than a relay needs, and then none at all.
func TestCheckFindsFullServer(t *testing.T) {
	t.Parallel()
	server, url := ownServer(t, map[string]string{"max_connections": "12", "superuser_reserved_connections": "3"})
	exec(t, connect(t, url), "update outbox.setting set value = outbox.home() where name = 'home'; create role app login in role pg_read_all_stats")
	exec(t, connect(t, url), `grant all on schema outbox to app; grant all on all tables in schema outbox to app; grant all on all sequences in schema outbox to app;
		grant execute on all functions in schema outbox to app`)
	as := strings.Replace(url, "postgres@", "app@", 1)
	store := newStore(t, as, nil)
	for range 4 {
		connect(t, url)
	}
	fix := fixes(t, store)["connections"]
	if !strings.HasPrefix(fix, "alter system set max_connections = ") {
		t.Fatalf("fix %q", fix)
	}
	admin := connect(t, url)
	exec(t, admin, fix)
	for {
		taken, err := pgx.Connect(t.Context(), as)
		if err != nil {
			break
		}
		t.Cleanup(func() { _ = taken.Close(context.Background()) })
	}
	full := newStore(t, as, nil)
	fix = fixes(t, full)["connection"]
	if !strings.Contains(fix, "pg_stat_activity") {
		t.Errorf("a server without a free connection: fix %q", fix)
	}
	exec(t, admin, fix)
	if err := server.Stop(t.Context(), pgdev.Fast); err != nil {
		t.Fatal(err)
	}
	if err := server.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	store.pool.Reset()
	if fix := fixes(t, store)["connections"]; fix != "" {
		t.Errorf("after the fix and a restart: %s", fix)
	}
}

// TestCheckUnderLock: what cannot be looked at, as somebody has locked it, is told of within a bounded time, and the rest is checked.
func TestCheckUnderLock(t *testing.T) {
	t.Parallel()
	url := originalDatabase(t)
	store := newStore(t, url, nil)
	tx := begin(t, connect(t, url))
	if _, err := tx.Exec(t.Context(), "lock table outbox.relay in access exclusive mode"); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	found := fixes(t, store)
	if took := time.Since(began); took > 30*time.Second {
		t.Errorf("took %v", took)
	}
	if found["connections"] != "look whether the database answers, then check again" {
		t.Errorf("connections: fix %q", found["connections"])
	}
	for _, check := range []string{"copy", "archive", "vacuum", "notifications"} {
		if fix, checked := found[check]; !checked || fix != "" {
			t.Errorf("%s: checked %v, %s", check, checked, fix)
		}
	}
}
