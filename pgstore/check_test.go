package pgstore

import (
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
)

// fixes checks and returns the fix for each check, "" for what is fine.
func fixes(t *testing.T, store *Store) map[string]string {
	t.Helper()
	found := map[string]string{}
	for _, f := range store.Check(t.Context()) {
		if f.OK != (f.Fix == "") || f.Text == "" {
			t.Errorf("%+v: a finding has a fix, and both have a text", f)
		}
		if !f.OK {
			t.Log(f.Check, f.Text)
		}
		found[f.Check] = f.Fix
	}
	return found
}

func TestCheckFindsNothing(t *testing.T) {
	t.Parallel()
	found := fixes(t, newStore(t, originalDatabase(t), nil))
	for _, check := range []string{"server", "schema", "privileges", "copy", "sequence", "connections", "archive", "vacuum", "notifications"} {
		if fix, checked := found[check]; !checked || fix != "" {
			t.Errorf("%s: checked %v, %s", check, checked, fix)
		}
	}
}

// originalDatabase is migratedDatabase as if it was not a copy of another one.
func originalDatabase(t *testing.T) string {
	t.Helper()
	url := migratedDatabase(t)
	exec(t, connect(t, url), "update outbox.setting set value = outbox.home() where name = 'home'")
	return url
}

// TestCheckFinds: each check fires, and its fix, where that is SQL, repairs it.
func TestCheckFinds(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ check, spoil, fix string }{
		{"sequence", "alter sequence outbox.seq cache 20", "cache 1"},
		{"sequence", "insert into outbox.message (seq, id, topic, payload) values (500, gen_random_uuid(), 'a', '')", "500"},
		{"copy", "update outbox.setting set value = '1/2/3' where name = 'home'", ".home()"},
		{"copy", "delete from outbox.setting where name = 'home'", ".home()"},
		{"schema", "drop function outbox.set_notify", "migrate print"},
		{"schema", "drop schema outbox cascade", "outbox migrate up"},
		{"schema", "update outbox.migration set min_compatible = 99", "upgrade"},
		{"notifications", "select outbox.set_notify('off')", `set_notify('publish')`},
	} {
		t.Run(c.check+" "+c.spoil, func(t *testing.T) {
			t.Parallel()
			url := originalDatabase(t)
			store, conn := newStore(t, url, nil), connect(t, url)
			exec(t, conn, c.spoil)
			fix := fixes(t, store)[c.check]
			if !strings.Contains(fix, c.fix) {
				t.Fatalf("fix %q, want %q in it", fix, c.fix)
			}
			if strings.HasSuffix(fix, ";") {
				exec(t, conn, fix)
				if fix := fixes(t, store)[c.check]; fix != "" {
					t.Errorf("after the fix: %s", fix)
				}
			}
		})
	}
}

func TestCheckFindsMissingTrigger(t *testing.T) {
	t.Parallel()
	url := migratedDatabase(t)
	store := newStore(t, url, &Config{Notify: NotifyTrigger})
	fix := fixes(t, store)["notifications"]
	if fix == "" {
		t.Fatal("not found")
	}
	exec(t, connect(t, url), fix)
	if fix := fixes(t, store)["notifications"]; fix != "" {
		t.Errorf("after the fix: %s", fix)
	}
}

func TestCheckFindsMissingPrivileges(t *testing.T) {
	t.Parallel()
	url := migratedDatabase(t)
	conn := connect(t, url)
	role := `outbox_check_` + strings.ToLower(strings.TrimPrefix(conn.Config().Database, "outbox_test_"))
	exec(t, conn, "create role "+role+" login password 'x'")
	exec(t, conn, "grant select on outbox.claim to "+role)
	cfg, err := pgxpool.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	cfg.ConnConfig.User = role
	pool, err := pgxpool.NewWithConfig(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	store, err := New(pool, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	fix := fixes(t, store)["privileges"]
	// Without USAGE on the schema nothing of it can be looked at, but the rights can.
	for _, part := range []string{"grant usage on schema outbox to " + role + ";", "grant select on table outbox.migration to " + role + ";"} {
		if !strings.Contains(fix, part) {
			t.Fatalf("the fix has no %q: %q", part, fix)
		}
	}
	exec(t, conn, fix)
	if fix := fixes(t, store)["privileges"]; fix != "" {
		t.Errorf("after the fix: %s", fix)
	}
	newTestRelay(t, store, ">").claim(t, 1) // what check calls enough is enough
	pool.Close()
	exec(t, conn, "drop owned by "+role)
	exec(t, conn, "drop role "+role)
}

func TestCheckConnection(t *testing.T) {
	t.Parallel()
	pool, err := pgxpool.New(t.Context(), "postgres://nobody:secret-word@127.0.0.1:1/none?sslmode=disable")
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	store, err := New(pool, nil)
	if err != nil {
		t.Fatal(err)
	}
	found := store.Check(t.Context())
	if len(found) != 1 || found[0].Check != "connection" || strings.Contains(found[0].Text, "secret-word") {
		t.Errorf("%+v", found)
	}
	if slices.ContainsFunc(found, func(f Finding) bool { return f.OK }) {
		t.Errorf("%+v", found)
	}
}
