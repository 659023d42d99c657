package outboxtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/outboxrelay/outbox"
)

// Tx is a transaction that publishes. As in a database, its messages get their place in publish order when
// they are published and exist for others from Commit on, so a transaction that commits late makes older
// messages appear behind younger ones. A Tx is safe for concurrent use.
type Tx struct {
	box    *box
	rows   []*row
	names  []name
	ends   []ending // messages that it settles
	failed error
	done   chan struct{} // closed at the end
}

var errTxDone = errors.New("outboxtest: the transaction has ended")

// Begin starts a transaction. It must be ended by Commit or Rollback: until then others that use the same
// dedup keys or ids wait for it.
func (s *Store) Begin() *Tx {
	return &Tx{box: s.box, done: make(chan struct{})}
}

// Publish publishes messages in a transaction of its own.
func (s *Store) Publish(ctx context.Context, ms ...outbox.Message) ([]outbox.Receipt, error) {
	tx := s.Begin()
	receipts, err := tx.Publish(ctx, ms...)
	if err != nil {
		_ = tx.Rollback() // the transaction is open, so it cannot fail
		return nil, err
	}
	return receipts, tx.Commit()
}

// Publish adds messages to the transaction. A message beyond the limits is refused with an
// *outbox.FieldError before anything is published. outbox.ErrDuplicateID spoils the transaction.
func (tx *Tx) Publish(ctx context.Context, ms ...outbox.Message) ([]outbox.Receipt, error) {
	prepared := make([]outbox.Message, len(ms))
	for i, m := range ms {
		p, err := outbox.Prepare(ctx, m, tx.box.maxPayload)
		if err != nil {
			return nil, fmt.Errorf("message %d: %w", i, err)
		}
		p.Payload = bytes.Clone(p.Payload)
		prepared[i] = p
	}
	receipts := make([]outbox.Receipt, len(ms))
	for i, m := range prepared {
		duplicate, err := tx.insert(ctx, m, !ms[i].ID.IsZero())
		if err != nil {
			return nil, fmt.Errorf("message %d: %w", i, err)
		}
		if duplicate {
			receipts[i].Duplicate = true
			continue
		}
		receipts[i].ID = m.ID
	}
	return receipts, nil
}

// insert adds one message, after other transactions that use its names have ended.
func (tx *Tx) insert(ctx context.Context, m outbox.Message, ownID bool) (duplicate bool, err error) {
	for {
		duplicate, rival, err := tx.tryInsert(m, ownID)
		if rival == nil {
			return duplicate, err
		}
		select {
		case <-rival.done:
		case <-ctx.Done():
			return false, tx.fail(ctx.Err())
		}
	}
}

func (tx *Tx) tryInsert(m outbox.Message, ownID bool) (duplicate bool, rival *Tx, err error) {
	b := tx.box
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := tx.usable(); err != nil {
		return false, nil, err
	}
	names := namesOf(m, ownID)
	for _, n := range names {
		switch taken, rival := b.isTaken(n, tx); {
		case rival != nil:
			return false, rival, nil
		case taken && n.isID():
			tx.failed = fmt.Errorf("%w: %s", outbox.ErrDuplicateID, m.ID)
			return false, nil, tx.failed
		case taken:
			return true, nil, nil
		}
	}
	r := b.newRow(m)
	tx.rows = append(tx.rows, r)
	for _, n := range names {
		b.reserve(n, r, tx)
	}
	return false, nil, nil
}

// newRow draws the message's place in publish order.
func (b *box) newRow(m outbox.Message) *row {
	now := b.now()
	b.lastSeq++
	r := &row{Message: m, seq: b.lastSeq, publishedAt: now, expiresAt: m.ExpiresAt}
	if m.TTL > 0 {
		r.expiresAt = now.Add(m.TTL)
	}
	if at := deliverAt(m, now); at.After(now) {
		r.postpone(at)
	}
	return r
}

func deliverAt(m outbox.Message, now time.Time) time.Time {
	if m.DeliverAt.IsZero() {
		return now.Add(m.Delay)
	}
	return m.DeliverAt
}

// usable is called with the mutex held.
func (tx *Tx) usable() error {
	select {
	case <-tx.done:
		return errTxDone
	default:
	}
	if tx.failed != nil {
		return fmt.Errorf("outboxtest: the transaction has failed before: %w", tx.failed)
	}
	return nil
}

func (tx *Tx) fail(err error) error {
	tx.box.mu.Lock()
	defer tx.box.mu.Unlock()
	tx.failed = err
	return err
}

// Commit makes the transaction's messages exist. After a failed Publish it rolls back and says so.
func (tx *Tx) Commit() error {
	b := tx.box
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := tx.usable(); err != nil {
		if !errors.Is(err, errTxDone) {
			tx.end()
		}
		return err
	}
	for _, r := range tx.rows {
		b.rows[r.seq] = r
	}
	for _, n := range tx.names {
		b.names[n].tx = nil
	}
	tx.names = nil
	for _, e := range tx.ends {
		b.keep(e.row, outbox.StateDelivered, Archived{Destination: e.claim.destination})
		delete(b.rows, e.row.seq)
		b.ended[outbox.Delivered]++
	}
	tx.end()
	if len(tx.rows) > 0 {
		b.notify()
	}
	return nil
}

// Rollback discards the transaction. After Commit it changes nothing and returns an error.
func (tx *Tx) Rollback() error {
	tx.box.mu.Lock()
	defer tx.box.mu.Unlock()
	if err := tx.usable(); errors.Is(err, errTxDone) {
		return err
	}
	tx.end()
	return nil
}

// end closes the transaction and drops the names that it has not committed.
func (tx *Tx) end() {
	for _, n := range tx.names {
		delete(tx.box.names, n)
	}
	for _, e := range tx.ends {
		e.claim.settling--
		e.row.settling = nil
	}
	close(tx.done)
}
