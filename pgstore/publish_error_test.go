package pgstore

import (
	"errors"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/outboxrelay/outbox"
)

// codedError is shaped like that of lib/pq.
type codedError struct{ code, Constraint string }

func (e *codedError) Error() string    { return e.code }
func (e *codedError) SQLState() string { return e.code }

// fieldedError is shaped like that of bun's driver.
type fieldedError map[byte]string

func (e fieldedError) Error() string       { return e['C'] }
func (e fieldedError) Field(k byte) string { return e[k] }

// TestExplain: the conditions are found in the errors of every driver, and only where they are.
func TestExplain(t *testing.T) {
	p := newPublisher(t, nil)
	conditions := []error{outbox.ErrSchemaMissing, outbox.ErrNoTransaction, outbox.ErrDuplicateID}
	for _, c := range []struct {
		state, constraint string
		want              error
	}{
		{"42P01", "", outbox.ErrSchemaMissing},
		{"3F000", "", outbox.ErrSchemaMissing},
		{"42883", "", outbox.ErrSchemaMissing},
		{"25P01", "", outbox.ErrNoTransaction},
		{"23505", "message_id_unique", outbox.ErrDuplicateID},
		{"23505", "message_pkey", nil},
		{"23505", "", nil},
		{"40001", "", nil},
	} {
		for _, cause := range []error{
			&pgconn.PgError{Code: c.state, ConstraintName: c.constraint},
			&codedError{c.state, c.constraint},
			fieldedError{'C': c.state, 'n': c.constraint},
		} {
			err := p.explain("doing", fmt.Errorf("wrapped: %w", cause))
			for _, condition := range conditions {
				if errors.Is(err, condition) != (condition == c.want) {
					t.Errorf("%T of %s %s: %v, want %v", cause, c.state, c.constraint, err, c.want)
				}
			}
		}
	}
	if state, constraint := sqlError(errors.New("no")); state != "" || constraint != "" {
		t.Errorf("%q %q of another error", state, constraint)
	}
}
