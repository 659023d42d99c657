package outbox

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// Conditions. They are returned wrapped: find them with errors.Is.
var (
	// ErrNoTransaction: Publish was given something that is not inside a transaction.
	ErrNoTransaction = errors.New("not inside a transaction")
	// ErrDuplicateID: a caller-given message id is already taken.
	ErrDuplicateID = errors.New("a message with this id exists already")
	// ErrSchemaMissing: the outbox's tables do not exist in the database.
	ErrSchemaMissing = errors.New("the outbox schema is missing")
	// ErrSchemaTooNew: the tables were made by a version that this one cannot work with.
	ErrSchemaTooNew = errors.New("the outbox schema is newer than this program")
	// ErrLeaseLost: the relay's lease has ended; what it held may already be with another relay.
	ErrLeaseLost = errors.New("the relay's lease is lost")
	// ErrShutdown: the relay stops and its drain limit is over.
	ErrShutdown = errors.New("the relay is stopping")
	// ErrHandlerTimeout: a handler or sink exceeded its time limit.
	ErrHandlerTimeout = errors.New("the handler's time limit is over")
	// ErrDrainTimeout: Run returned although a handler was still running; its message stays held until the lease lapses.
	ErrDrainTimeout = errors.New("stopped before every handler had returned")
	// ErrUnreported: a batch sink returned without an error and without a result for this message.
	ErrUnreported = errors.New("the sink returned no result for the message")
)

// FieldError refuses a value before anything was sent to the database.
type FieldError struct {
	Field string // as in the Go struct: Topic, Headers[x], Config.Lease
	Value string // what was given, cut to a readable length
	Bound string // what would have been accepted
}

func (e *FieldError) Error() string {
	return fmt.Sprintf("%s %q: %s", e.Field, e.Value, e.Bound)
}

func fieldError(field, value, bound string) *FieldError {
	const readable = 80
	if len(value) > readable {
		value = strings.ToValidUTF8(value[:readable], "") + "…"
	}
	return &FieldError{Field: field, Value: value, Bound: bound}
}

// Permanent marks err as final: the message is dead now, whatever attempts are left, unless its Order is OrderBlock.
// A nil err stays nil.
func Permanent(err error) error {
	if err == nil {
		return nil
	}
	return &permanentError{err}
}

// IsPermanent reports whether err was marked by Permanent.
func IsPermanent(err error) bool {
	var e *permanentError
	return errors.As(err, &e)
}

type permanentError struct{ err error }

func (e *permanentError) Error() string { return e.err.Error() }
func (e *permanentError) Unwrap() error { return e.err }

// RetryAfter fails the attempt and asks for the next one after d instead of the policy's backoff.
// A negative d counts as zero, a nil err stays nil.
func RetryAfter(d time.Duration, err error) error {
	if err == nil {
		return nil
	}
	return &retryAfterError{max(d, 0), err}
}

// RetryDelay returns the delay of a RetryAfter error.
func RetryDelay(err error) (time.Duration, bool) {
	var e *retryAfterError
	if errors.As(err, &e) {
		return e.delay, true
	}
	return 0, false
}

type retryAfterError struct {
	delay time.Duration
	err   error
}

func (e *retryAfterError) Error() string { return e.err.Error() }
func (e *retryAfterError) Unwrap() error { return e.err }

// Unavailable says that the destination, not the message, is at fault: the message is given back, no
// attempt is spent, and the destination rests for a backoff. A nil err stays nil.
func Unavailable(err error) error {
	if err == nil {
		return nil
	}
	return &unavailableError{err}
}

// IsUnavailable reports whether err was marked by Unavailable or Misconfigured.
func IsUnavailable(err error) bool {
	var e *unavailableError
	return errors.As(err, &e) || IsMisconfigured(err)
}

type unavailableError struct{ err error }

func (e *unavailableError) Error() string { return e.err.Error() }
func (e *unavailableError) Unwrap() error { return e.err }

// Misconfigured is Unavailable with more to say: the destination answers, and takes nothing until somebody changes
// something. The error's text says what: an exchange is missing, a login is refused. A nil err stays nil.
func Misconfigured(err error) error {
	if err == nil {
		return nil
	}
	return &misconfiguredError{err}
}

// IsMisconfigured reports whether err was marked by Misconfigured.
func IsMisconfigured(err error) bool {
	var e *misconfiguredError
	return errors.As(err, &e)
}

type misconfiguredError struct{ err error }

func (e *misconfiguredError) Error() string { return e.err.Error() }
func (e *misconfiguredError) Unwrap() error { return e.err }

// Drop accepts the message without acting on it; it is counted as dropped, with the reason.
func Drop(reason string) error { return &dropError{reason} }

// DropReason returns the reason of a Drop.
func DropReason(err error) (string, bool) {
	var e *dropError
	if errors.As(err, &e) {
		return e.reason, true
	}
	return "", false
}

type dropError struct{ reason string }

func (e *dropError) Error() string { return "dropped: " + e.reason }
