package sqlitestore

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/outboxrelay/outbox"
)

// Publish publishes the messages in the transaction, in the order given, and returns a receipt for each. All messages
// are checked before anything is sent, and when it fails none of them is published: the transaction may go on.
//
// A caller's id that is taken is outbox.ErrDuplicateID, missing tables are outbox.ErrSchemaMissing, a refused value is
// a *outbox.FieldError. A DedupKey that is taken is a receipt that says so.
//
// Publishing makes the transaction the file's writer until it ends. One that has read before may find that another has
// written since, which SQLite refuses as SQLITE_BUSY at once: begin it as a writer (BEGIN IMMEDIATE; the drivers' DSN
// has _txlock=immediate, and InTx does it), or repeat it.
func (s *Store) Publish(ctx context.Context, tx *sql.Tx, ms ...outbox.Message) ([]outbox.Receipt, error) {
	if tx == nil {
		return nil, fmt.Errorf("publish: the transaction is nil: %w", outbox.ErrNoTransaction)
	}
	prepared := make([]outbox.Message, len(ms))
	for i, m := range ms {
		p, err := prepare(ctx, m, s.cfg.MaxPayload)
		if err != nil {
			return nil, fmt.Errorf("publish: message %d of %d: %w", i+1, len(ms), err)
		}
		prepared[i] = p
	}
	if len(ms) == 0 {
		return nil, nil
	}
	p := &publishing{ctx: ctx, tx: tx, sql: s.sql, window: milliseconds(s.cfg.DedupWindow), receipts: make([]outbox.Receipt, 0, len(ms))}
	if err := p.all(ms, prepared); err != nil {
		return nil, s.explain("publish", err)
	}
	return p.receipts, nil
}

// InTx runs f in a transaction of the Store's database that is a writer from its beginning, commits it if f returns nil,
// and rolls it back otherwise. When it has committed, the Store's own relays are woken at once; those of other
// processes, and of other Stores, find out within some 20 ms.
func (s *Store) InTx(ctx context.Context, f func(tx *sql.Tx) error) error {
	var tx *sql.Tx
	err := retryBusy(ctx, func() (err error) {
		if tx, err = s.db.BeginTx(ctx, nil); err != nil {
			return err
		}
		if _, err = tx.ExecContext(ctx, s.sql["be_writer"]); err != nil {
			_ = tx.Rollback() // nothing was done
		}
		return err
	})
	if err != nil {
		return s.explain("begin", err)
	}
	defer tx.Rollback() //nolint:errcheck // after a commit there is nothing to roll back
	if err := f(tx); err != nil {
		return err
	}
	if err := tx.Commit(); err != nil {
		return fmt.Errorf("commit: %w", err)
	}
	s.signal.wake()
	return nil
}

// prepare checks and completes a message; times must be ones that RFC 3339 can say.
func prepare(ctx context.Context, m outbox.Message, maxPayload int) (outbox.Message, error) {
	p, err := outbox.Prepare(ctx, m, maxPayload)
	for field, t := range map[string]time.Time{"DeliverAt": p.DeliverAt, "ExpiresAt": p.ExpiresAt} {
		if year := t.UTC().Year(); err == nil && (year < 1 || year > 9999) {
			err = refuse(field, t.UTC().Format("2006-01-02"), "must be from year 1 to 9999")
		}
	}
	return p, err
}

// publishing is one call of Publish.
type publishing struct {
	ctx      context.Context
	tx       *sql.Tx
	sql      statements
	window   int64
	seq, now int64
	receipts []outbox.Receipt
}

// all publishes within a savepoint, so that a failure leaves nothing behind.
func (p *publishing) all(given, prepared []outbox.Message) error {
	if err := p.tx.QueryRowContext(p.ctx, p.sql["draw"], len(prepared)).Scan(&p.seq, &p.now); err != nil {
		return err
	}
	p.seq -= int64(len(prepared))
	if _, err := p.tx.ExecContext(p.ctx, "savepoint outbox_publish"); err != nil {
		return err
	}
	for i := range prepared {
		if err := p.one(&prepared[i], !given[i].ID.IsZero()); err != nil {
			return errors.Join(fmt.Errorf("message %d of %d, %s of topic %s: %w", i+1, len(prepared), prepared[i].ID, prepared[i].Topic, err),
				p.takeBack())
		}
	}
	_, err := p.tx.ExecContext(p.ctx, "release outbox_publish")
	return err
}

// takeBack undoes what the savepoint covers. When the context is over, database/sql rolls the whole transaction back.
func (p *publishing) takeBack() error {
	if p.ctx.Err() != nil {
		return nil
	}
	_, err := p.tx.ExecContext(p.ctx, "rollback to outbox_publish; release outbox_publish")
	return err
}

func (p *publishing) one(m *outbox.Message, ownID bool) error {
	p.seq++
	names := namesOf(m, ownID)
	for _, n := range names {
		var taken int
		if err := p.tx.QueryRowContext(p.ctx, p.sql["name_taken"], n.topic, n.key, p.now).Scan(&taken); err != nil {
			return err
		}
		switch {
		case taken > 0 && n.topic == "":
			return outbox.ErrDuplicateID
		case taken > 0:
			p.receipts = append(p.receipts, outbox.Receipt{Duplicate: true})
			return nil
		}
	}
	for _, n := range names {
		if _, err := p.tx.ExecContext(p.ctx, p.sql["take_name"], n.topic, n.key, m.ID.String(), p.seq, p.now+p.window); err != nil {
			return err
		}
	}
	if err := p.insert(m); err != nil {
		return err
	}
	p.receipts = append(p.receipts, outbox.Receipt{ID: m.ID})
	return nil
}

// insert makes the message ready, or lets it wait for its time.
func (p *publishing) insert(m *outbox.Message) error {
	var expires any
	due := p.now + milliseconds(m.Delay)
	if !m.DeliverAt.IsZero() {
		due = m.DeliverAt.UnixMilli()
	}
	if at, ok := p.expiry(m); ok {
		expires, due = at, min(due, at)
	}
	payload := m.Payload
	if payload == nil {
		payload = []byte{} // nil would be NULL
	}
	args := []any{p.seq, m.ID.String(), m.Topic, orNull(m.Key), payload, headersJSON(m.Headers), orNull(m.DedupKey),
		maxAttempts(m.MaxAttempts), orNull(milliseconds(m.BrokerTTL)), expires, p.now}
	if due <= p.now {
		_, err := p.tx.ExecContext(p.ctx, p.sql["publish"], args...)
		return err
	}
	_, err := p.tx.ExecContext(p.ctx, p.sql["publish_later"], append(args, due)...)
	return err
}

// expiry is when the message's life ends.
func (p *publishing) expiry(m *outbox.Message) (at int64, ok bool) {
	if m.TTL > 0 {
		return p.now + milliseconds(m.TTL), true
	}
	return m.ExpiresAt.UnixMilli(), !m.ExpiresAt.IsZero()
}

func headersJSON(headers map[string]string) string {
	if len(headers) == 0 {
		return "{}"
	}
	text, _ := json.Marshal(headers) // texts do not fail
	return string(text)
}

// maxAttempts is how the tables say it: null is the rule's number, 0 is unlimited.
func maxAttempts(n int) any {
	switch n {
	case 0:
		return nil
	case outbox.Unlimited:
		return 0
	}
	return n
}

// name is what only one message may have: a dedup key within its topic, or, with an empty topic, an id that its caller
// chose.
type name struct{ topic, key string }

func namesOf(m *outbox.Message, ownID bool) (names []name) {
	if ownID {
		names = append(names, name{"", m.ID.String()})
	}
	if m.DedupKey != "" {
		names = append(names, name{m.Topic, m.DedupKey})
	}
	return names
}
