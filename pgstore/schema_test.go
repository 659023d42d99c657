package pgstore

import (
	"errors"
	"strings"
	"testing"

	"github.com/outboxrelay/outbox"
)

func TestSchemaName(t *testing.T) {
	for _, name := range []string{"outbox", "user", "_x", "a1", strings.Repeat("a", 63)} {
		if err := checkSchemaName(name); err != nil {
			t.Errorf("%q: %v", name, err)
		}
	}
	for _, name := range []string{"", "Outbox", "1a", "pg_x", "a-b", `a"b`, "a.b", "a b", "é", "a\x00", strings.Repeat("a", 64)} {
		var field *outbox.FieldError
		if err := checkSchemaName(name); !errors.As(err, &field) || field.Field != "Schema" {
			t.Errorf("%q: %v, want a FieldError", name, err)
		}
	}
}

// TestSchemaNameRefusedEverywhere: wherever a name comes in, a bad one is refused before any SQL.
func TestSchemaNameRefusedEverywhere(t *testing.T) {
	const bad = `x"; drop schema public; --`
	conn := connect(t, postgres.Database(t))
	_, publisherErr := NewPublisher(&PublishConfig{Schema: bad})
	_, migratorErr := NewMigrator(conn.Config(), bad)
	for name, err := range map[string]error{
		"publisher": publisherErr,
		"migrator":  migratorErr,
		"up":        migrateUp(t.Context(), conn, bad),
		"down":      migrateDown(t.Context(), conn, bad, 0),
		"check":     checkSchema(t.Context(), conn, bad),
	} {
		var field *outbox.FieldError
		if !errors.As(err, &field) {
			t.Errorf("%s: %v, want a FieldError", name, err)
		}
	}
}

func TestRender(t *testing.T) {
	cases := map[string]string{
		"select outbox.publish(x) from outbox.message":         `select "user".publish(x) from "user".message`,
		"nextval('outbox.seq')":                                `nextval('"user".seq')`,
		"pg_notify('outbox', '')":                              `pg_notify('user', '')`,
		"create schema outbox; comment on schema outbox is ''": `create schema "user"; comment on schema "user" is ''`,
		"drop schema outbox cascade":                           `drop schema "user" cascade`,
		"raise unique_violation using schema = 'outbox'":       `raise unique_violation using schema = 'user'`,
		"-- messages of the outbox. Others":                    "-- messages of the outbox. Others",
		"myoutbox.x, outbox_y, 'outbox-', schema outboxes":     "myoutbox.x, outbox_y, 'outbox-', schema outboxes",
		"h.name !~* '^(outbox|nats)-'":                         "h.name !~* '^(outbox|nats)-'",
	}
	for sql, want := range cases {
		if got := render(sql, "user"); got != want {
			t.Errorf("render(%q)\n got %q\nwant %q", sql, got, want)
		}
	}
}

func TestUncommented(t *testing.T) {
	const sql = "-- can't take $1\nselect a - -1, $1 -- after code it stays\n    -- inside\nfrom t\n"
	if got := uncommented(sql); got != "select a - -1, $1 -- after code it stays\nfrom t\n" {
		t.Errorf("%q", got)
	}
	p := newPublisher(t, nil)
	for _, sql := range []string{p.oneSQL, p.plain.insert, p.plain.rows, p.locking.insert, p.locking.rows, p.lockSQL, p.inTransactionSQL} {
		if strings.Contains(sql, "--") || !strings.Contains(sql, "outbox") {
			t.Errorf("a comment is left, or nothing: %s", sql)
		}
	}
}

// TestRenderedNames: with another schema's name, no SQL of the package still names the schema outbox. Comments, warnings,
// reserved headers and the beginning of the publication's name say outbox in any schema.
func TestRenderedNames(t *testing.T) {
	all, err := readMigrations(migrationFiles, "migrations")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range all {
		for _, line := range strings.Split(m.script("elsewhere")+render(m.down, "elsewhere"), "\n") {
			code, _, _ := strings.Cut(line, "--")
			for _, word := range []string{"raise warning 'outbox: ", "'^(outbox|nats)-'", "'outbox_'"} {
				code = strings.ReplaceAll(code, word, "")
			}
			if strings.Contains(code, "outbox") && !strings.Contains(code, "comment on") {
				t.Errorf("not rendered: %s", line)
			}
		}
	}
}
