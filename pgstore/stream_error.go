package pgstore

import (
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
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
func (s *Store) explainStream(err error) error {
	var pgErr *pgconn.PgError
	if !errors.As(err, &pgErr) {
		return explainConnect(err)
	}
	if problem, advice := s.streamAdvice(pgErr); advice != "" {
		return &adviceError{problem, advice, err}
	}
	if pgErr.Code == stateDuplicateObject {
		return errOtherStreams
	}
	return err
}

// adviceError is an error in the words of an operator, with what to do about it.
type adviceError struct {
	problem, advice string
	err             error
}

func (e *adviceError) Error() string { return e.problem + ": " + e.advice + " (" + e.err.Error() + ")" }
func (e *adviceError) Unwrap() error { return e.err }

// adviceCheck is for what takes numbers that only the server knows.
const (
	adviceCheck    = "outbox check --engine wal"
	adviceWALLevel = "alter system set wal_level = 'logical';"
	adviceListen   = "set database.listen_url to a direct connection to the primary"
)

// streamAdvice is what an error means, and what repairs it as Finding.Fix says it; both empty: not known.
func (s *Store) streamAdvice(err *pgconn.PgError) (problem, advice string) {
	switch {
	case err.Code == stateNotInPrerequisite && strings.Contains(err.Message, "wal_level"):
		return "wal_level is too low, and takes a restart of the server to change", adviceWALLevel
	case err.Code == stateConfigurationLimit:
		return "no replication slot is free", adviceCheck
	case err.Code == stateTooManyConnections && strings.Contains(err.Message, "max_wal_senders"):
		return "no WAL sender is free", adviceCheck
	case err.Code == statePrivilege && strings.Contains(err.Message, "replication"),
		err.Code == statePrivilege && strings.Contains(err.Message, "WAL sender"), // since PostgreSQL 16
		err.Code == stateInvalidAuthSpec && strings.Contains(err.Message, "replication"):
		return "the role may not replicate (managed servers have a role to grant instead, see docs/wal.md)", s.adviceReplication()
	case err.Code == statePrivilege:
		return "the role may not create the publication, so the owner of the table has to", advicePublication(s.cfg.Schema)
	case err.Code == stateUndefinedObject && strings.Contains(err.Message, "publication"):
		return "the publication is missing", advicePublication(s.cfg.Schema)
	case err.Code == stateProtocolViolation || err.Code == stateFeatureNotSupported && strings.Contains(err.Message, "replication"):
		return "a pooler cannot pass replication on", adviceListen
	}
	return "", ""
}

func (s *Store) adviceReplication() string {
	role := s.pool.Config().ConnConfig.User
	if cfg, err := pgx.ParseConfig(s.cfg.ListenURL); s.cfg.ListenURL != "" && err == nil {
		role = cfg.User
	}
	return fmt.Sprintf("alter role %s replication;", quoteName(role))
}

func advicePublication(schema string) string {
	return fmt.Sprintf(`create publication "%s" for table "%s".message with (publish = 'insert');`, publicationName(schema), schema)
}
