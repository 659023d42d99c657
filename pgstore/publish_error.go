package pgstore

import (
	"errors"
	"fmt"
	"reflect"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/outboxrelay/outbox"
	"github.com/outboxrelay/outbox/internal/connecting"
)

// SQLSTATEs that have a meaning of their own here.
const (
	stateUniqueViolation     = "23505"
	stateNoSuchStatement     = "26000"
	stateStatementExists     = "42P05"
	stateReadOnly            = "25006"
	stateStandby             = "0A000" // read write was asked of one; nothing else of ours is not supported
	stateNoActiveTransaction = "25P01"
	stateInvalidSchema       = "3F000"
	stateUndefinedTable      = "42P01"
	stateUndefinedFunction   = "42883"
	stateLockTimeout         = "55P03"
	stateDeadlock            = "40P01"
	stateCanceled            = "57014"
)

// uniqueIDConstraint is the name that publish_row gives the rule that a caller's id is unique.
const uniqueIDConstraint = "message_id_unique"

// explain wraps an error with what was being done and the condition that it stands for. Our statements name nothing
// but the outbox's own tables and functions, so one that is missing means that the schema is.
func (p *Publisher) explain(doing string, err error) error {
	switch state, constraint := sqlError(err); {
	case state == stateUndefinedTable || state == stateInvalidSchema || state == stateUndefinedFunction:
		err = schemaMissing(p.cfg.Schema, err)
	case state == stateNoSuchStatement || state == stateStatementExists:
		err = fmt.Errorf("prepared statements get lost; behind a pooler, add default_query_exec_mode=exec to the database URL: %w", err)
	case state == stateNoActiveTransaction:
		err = fmt.Errorf("%w: %w", outbox.ErrNoTransaction, err)
	case state == stateUniqueViolation && constraint == uniqueIDConstraint:
		err = fmt.Errorf("%w: %w", outbox.ErrDuplicateID, err)
	}
	return fmt.Errorf("%s: %w", doing, connecting.Explain(err))
}

// schemaMissing is outbox.ErrSchemaMissing with the line to run.
func schemaMissing(schema string, cause error) error {
	command := "outbox migrate up"
	if schema != DefaultSchema {
		command += " --database-schema " + schema
	}
	return fmt.Errorf("%w: run: %s: %w", outbox.ErrSchemaMissing, command, cause)
}

// sqlError returns the SQLSTATE and the constraint of an error of whichever driver; empty if there is none.
func sqlError(err error) (state, constraint string) {
	var pgErr *pgconn.PgError
	if errors.As(err, &pgErr) {
		return pgErr.Code, pgErr.ConstraintName
	}
	var coded interface { // lib/pq, and most others
		error
		SQLState() string
	}
	if errors.As(err, &coded) {
		return coded.SQLState(), constraintField(coded)
	}
	var fielded interface { // bun's driver; the letters are those of the protocol's error fields
		error
		Field(k byte) string
	}
	if errors.As(err, &fielded) {
		return fielded.Field('C'), fielded.Field('n')
	}
	return "", ""
}

// constraintField reads the field Constraint of lib/pq's error, which has no method for it. Importing lib/pq would bring
// it into the users' go.mod.
func constraintField(err error) string {
	v := reflect.Indirect(reflect.ValueOf(err))
	if v.Kind() != reflect.Struct {
		return ""
	}
	if f := v.FieldByName("Constraint"); f.IsValid() && f.Kind() == reflect.String {
		return f.String()
	}
	return ""
}
