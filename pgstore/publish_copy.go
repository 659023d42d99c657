package pgstore

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"regexp"
	"strconv"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/outboxrelay/outbox"
)

//go:embed queries/publish_copied.sql
var publishCopiedSQL string

// copyLeast is how many messages a call must have for COPY. It costs two round trips more than an INSERT and less for
// each message; docs/adr/0006-publish-copy.md has the figures.
const copyLeast = 500

// copyColumns are those that COPY fills. The others have defaults, seq is drawn row by row in the order given.
var copyColumns = []string{"id", "topic", "key", "payload", "headers", "max_attempts"}

// isCopyable reports whether COPY is enough: it can insert values, and not compute any from the database's clock.
func (e *entry) isCopyable() bool {
	return e.isPlain() && e.TTL == 0 && e.ExpiresAt.IsZero() && e.BrokerTTL == 0
}

// copies returns the session that is to COPY the messages, or nil: few messages, other ones, or a driver of database/sql.
func copies(s session, es []entry) *pgxSession {
	tx, ok := s.(pgxSession)
	if !ok || len(es) < copyLeast {
		return nil
	}
	for i := range es {
		if !es[i].isCopyable() {
			return nil
		}
	}
	return &tx
}

// copy publishes all messages of a call by one COPY.
func (p *Publisher) copy(ctx context.Context, s *pgxSession, notify bool, es []entry) ([]outbox.Receipt, string, error) {
	rows := pgx.CopyFromSlice(len(es), func(i int) ([]any, error) { return copyRow(&es[i]), nil })
	n, err := s.tx.CopyFrom(ctx, pgx.Identifier{p.cfg.Schema, "message"}, copyColumns, rows)
	if err == nil && n != int64(len(es)) {
		err = fmt.Errorf("%d of %d rows were copied", n, len(es))
	}
	if err != nil {
		return nil, "", p.explain(describe(copyCulprit(es, err)), err)
	}
	published, err := s.published(ctx, p.copiedSQL, notifyWord(notify))
	if err != nil {
		return nil, "", p.explain(describe(es), err)
	}
	sent := &sending{receipts: make([]outbox.Receipt, 0, len(es))}
	for i := range es {
		sent.add(es[i].ID, published[0])
	}
	return sent.receipts, sent.transaction, nil
}

func copyRow(e *entry) []any {
	var attempts any
	switch {
	case e.MaxAttempts == outbox.Unlimited:
		attempts = int32(0)
	case e.MaxAttempts != 0:
		attempts = int32(e.MaxAttempts)
	}
	payload := e.Payload
	if payload == nil {
		payload = []byte{}
	}
	return []any{[16]byte(e.ID), e.Topic, orNull(e.Key), payload, headersJSON(e.Headers), attempts}
}

var copyLine = regexp.MustCompile(`^COPY message, line (\d+)`)

// copyCulprit returns the message that an error of COPY is about, all if it does not say.
func copyCulprit(es []entry, err error) []entry {
	var pgErr *pgconn.PgError
	if !errors.As(err, &pgErr) {
		return es
	}
	if found := copyLine.FindStringSubmatch(pgErr.Where); found != nil {
		if line, _ := strconv.Atoi(found[1]); line >= 1 && line <= len(es) {
			return es[line-1 : line]
		}
	}
	return es
}
