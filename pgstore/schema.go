package pgstore

import (
	"regexp"
	"strings"

	"github.com/outboxrelay/outbox"
)

// DefaultSchema is the schema that holds the outbox unless configured otherwise.
const DefaultSchema = "outbox"

// schemaBound is what a schema name may be. 63 bytes is PostgreSQL's limit, and the notification channel has the
// schema's name.
const schemaBound = "1 to 63 of a-z 0-9 _, not beginning with a digit or pg_"

// checkSchemaName reports with a *outbox.FieldError what is wrong with the name of a schema.
func checkSchemaName(name string) error {
	if validSchemaName(name) {
		return nil
	}
	return refuse("Schema", name, schemaBound)
}

func validSchemaName(name string) bool {
	if name == "" || len(name) > 63 || strings.HasPrefix(name, "pg_") || name[0] >= '0' && name[0] <= '9' {
		return false
	}
	return !strings.ContainsFunc(name, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != '_'
	})
}

// schemaWord finds where SQL text says the schema's name: as a qualifier, as a string, as the object of a command.
var schemaWord = regexp.MustCompile(`\boutbox\.([a-z_])|'outbox'|\b(schema|SCHEMA) outbox\b`)

// render puts the schema's name into SQL text that is written for the schema outbox, so that psql runs the text as
// it is. The name must be valid. Quoting makes names such as "user" work.
func render(sql, schema string) string {
	return schemaWord.ReplaceAllStringFunc(sql, func(found string) string {
		switch {
		case found == "'outbox'":
			return "'" + schema + "'"
		case strings.HasSuffix(found, " outbox"):
			return strings.TrimSuffix(found, "outbox") + `"` + schema + `"`
		default:
			return `"` + schema + `".` + found[len(found)-1:]
		}
	})
}

// commentLine finds comments; in a statement they have lines of their own.
var commentLine = regexp.MustCompile(`(?m)^\s*--.*\n`)

// uncommented is a statement without its comments. A driver that puts arguments into the text, such as bun's, looks for
// $1 and quotes in comments too, and one that does not prepare would send them every time.
func uncommented(sql string) string { return commentLine.ReplaceAllString(sql, "") }

// refuse makes the error for a value that is refused before anything is sent to the database.
func refuse(field, value, bound string) error {
	const readable = 80
	if len(value) > readable {
		value = value[:readable] + "…"
	}
	return &outbox.FieldError{Field: field, Value: value, Bound: bound}
}
