package pgstore

import (
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
)

// What ends an attempt to stream, by SQLSTATE.
const (
	stateDuplicateObject     = "42710"
	stateNotInPrerequisite   = "55000"
	statePrivilege           = "42501"
	stateConfigurationLimit  = "53400"
	stateTooManyConnections  = "53300"
	stateInvalidAuthSpec     = "28000"
	stateProtocolViolation   = "08P01"
	stateUndefinedObject     = "42704"
	stateFeatureNotSupported = "0A000"
)

// explainStream adds what to do to the errors of a server that is not set up for streaming. The advice is what check
// gives as well.
func explainStream(schema string, err error) error {
	var pgErr *pgconn.PgError
	if !errors.As(err, &pgErr) {
		return err
	}
	if advice := streamAdvice(schema, pgErr); advice != "" {
		return &adviceError{advice, err}
	}
	if pgErr.Code == stateDuplicateObject {
		return errOtherStreams
	}
	return err
}

// adviceError is an error with what to do about it.
type adviceError struct {
	advice string
	err    error
}

func (e *adviceError) Error() string { return e.advice + ": " + e.err.Error() }
func (e *adviceError) Unwrap() error { return e.err }

// streamFix is what an error of explainStream advises.
func streamFix(err error) string {
	return adviceOf(err, "set database.listen_url to a direct connection to the primary")
}

func streamAdvice(schema string, err *pgconn.PgError) string {
	switch {
	case err.Code == stateNotInPrerequisite && strings.Contains(err.Message, "wal_level"):
		return "set wal_level to logical and restart the server: " + adviceWALLevel
	case err.Code == stateConfigurationLimit:
		return "no replication slot is free; raise max_replication_slots and restart the server, or drop slots that nobody uses: " + adviceSlots
	case err.Code == stateTooManyConnections && strings.Contains(err.Message, "max_wal_senders"):
		return "no WAL sender is free; raise max_wal_senders and restart the server: " + adviceSenders
	case err.Code == statePrivilege && strings.Contains(err.Message, "replication"),
		err.Code == stateInvalidAuthSpec && strings.Contains(err.Message, "replication"):
		return "the role may not replicate: " + adviceReplication
	case err.Code == statePrivilege:
		return "the role may not create the publication; let the owner of the table do it: " + advicePublication(schema)
	case err.Code == stateUndefinedObject && strings.Contains(err.Message, "publication"):
		return "the publication is missing: " + advicePublication(schema)
	case err.Code == stateProtocolViolation || err.Code == stateFeatureNotSupported && strings.Contains(err.Message, "replication"):
		return "a pooler cannot pass replication on; set a direct connection as database.listen_url"
	}
	return ""
}

// SQL to paste.
const (
	adviceWALLevel    = "alter system set wal_level = 'logical';"
	adviceSlots       = "alter system set max_replication_slots = 20;"
	adviceSenders     = "alter system set max_wal_senders = 20;"
	adviceReplication = "alter role <role> replication; (managed servers have a role to grant instead, see docs/wal.md)"
)

func advicePublication(schema string) string {
	return fmt.Sprintf(`create publication "%s" for table "%s".message with (publish = 'insert');`, publicationName(schema), schema)
}
