// Package inbox keeps the effects of messages to once at their consumers: it marks each message in the transaction in
// which the consumer acts on it, and tells those that are marked already.
//
// An outbox delivers at least once, so a consumer sees a message again when an answer was lost, when a relay has died, or
// when an operator redrives it. A consumer that writes to a PostgreSQL database can make that harmless: Once marks the
// message by the id in its header Outbox-Id, and effect and mark commit together. The database is the consumer's; it
// needs no outbox, and nothing of a relay.
//
// docs/exactly-once.md says when to use this, and when a handler's own transaction is enough.
package inbox

import (
	"context"
	"database/sql"
	_ "embed"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"

	"github.com/outboxrelay/outbox"
)

// DefaultSchema is the schema that holds the marks unless configured otherwise.
const DefaultSchema = "inbox"

// maxName bounds the names of consumers and the ids, in bytes.
const maxName = 255

var (
	//go:embed queries/once.sql
	onceSQL string
	//go:embed queries/migrate.sql
	migrateSQL string
	//go:embed queries/purge.sql
	purgeSQL string
)

// Config configures an Inbox. The zero value means the defaults.
type Config struct {
	// Schema holds the table of marks. Default "inbox"; a-z, 0-9 and _, at most 63, beginning with a letter.
	Schema string
}

// Inbox marks messages in a consumer's database. It has no connection of its own and is safe for concurrent use.
type Inbox struct {
	once, migrate, purge string
}

var schemaName = regexp.MustCompile(`^[a-z][a-z0-9_]{0,62}$`)

// New makes an Inbox; cfg may be nil. It does no I/O. The error is a *outbox.FieldError.
func New(cfg *Config) (*Inbox, error) {
	schema := DefaultSchema
	if cfg != nil && cfg.Schema != "" {
		schema = cfg.Schema
	}
	if !schemaName.MatchString(schema) || strings.HasPrefix(schema, "pg_") {
		return nil, &outbox.FieldError{Field: "Schema", Value: schema, Bound: "1 to 63 of a-z 0-9 _, beginning with a letter, not with pg_"}
	}
	in := func(sql string) string {
		sql = strings.ReplaceAll(sql, "'inbox'", "'"+schema+"'")
		sql = strings.ReplaceAll(sql, "schema inbox", `schema "`+schema+`"`)
		return strings.ReplaceAll(sql, "inbox.mark", `"`+schema+`".mark`)
	}
	return &Inbox{once: in(onceSQL), migrate: in(migrateSQL), purge: in(purgeSQL)}, nil
}

// Once marks a message for a consumer in the caller's transaction, and reports whether it is the first time. False: the
// message was marked by a transaction that has committed, so do nothing and accept it. The mark is gone when the
// transaction is rolled back.
//
// consumer names what acts on the message: two that act on the same one have different names. id is the header Outbox-Id,
// which stays the same when a message is sent again or redriven. Both have 1 to 255 bytes.
//
// While another transaction marks the same message Once waits for its end. Under REPEATABLE READ and SERIALIZABLE it fails
// with SQLSTATE 40001 if that one commits: roll back and try again, or let the message be delivered again. It needs INSERT
// on the table mark. After an error from the database the transaction is aborted: return the error and roll back.
func (b *Inbox) Once(ctx context.Context, tx pgx.Tx, consumer, id string) (first bool, err error) {
	if err := check(tx == nil, consumer, id); err != nil {
		return false, err
	}
	tag, err := tx.Exec(ctx, b.once, consumer, id)
	if err != nil {
		return false, explain(fmt.Sprintf("mark message %s for %s", id, consumer), err)
	}
	return tag.RowsAffected() == 1, nil
}

// OnceSQL is Once for a transaction of database/sql, with any driver for PostgreSQL.
func (b *Inbox) OnceSQL(ctx context.Context, tx *sql.Tx, consumer, id string) (first bool, err error) {
	if err := check(tx == nil, consumer, id); err != nil {
		return false, err
	}
	result, err := tx.ExecContext(ctx, b.once, consumer, id)
	if err != nil {
		return false, explain(fmt.Sprintf("mark message %s for %s", id, consumer), err)
	}
	n, err := result.RowsAffected()
	return n == 1, err
}

// check refuses before any SQL what the database would, which aborts the transaction.
func check(noTx bool, consumer, id string) error {
	if noTx {
		return fmt.Errorf("mark message %s: the transaction is nil: %w", id, outbox.ErrNoTransaction)
	}
	return errors.Join(checkName("consumer", consumer), checkName("id", id))
}

func checkName(field, value string) error {
	if value != "" && len(value) <= maxName && utf8.ValidString(value) && !strings.ContainsRune(value, 0) {
		return nil
	}
	return &outbox.FieldError{Field: field, Value: strings.ToValidUTF8(value[:min(len(value), 80)], ""), Bound: "1 to 255 bytes of UTF-8 without NUL"}
}

// explain wraps an error with what was being done, and with outbox.ErrSchemaMissing if there is no table of marks.
func explain(doing string, err error) error {
	state := ""
	var coded interface {
		error
		SQLState() string
	}
	if errors.As(err, &coded) {
		state = coded.SQLState()
	}
	if state == "42P01" || state == "3F000" {
		return fmt.Errorf("%s: %w: call Inbox.Migrate: %w", doing, outbox.ErrSchemaMissing, err)
	}
	return fmt.Errorf("%s: %w", doing, err)
}
