package outboxtest

import (
	"bytes"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/outboxrelay/outbox"
	"github.com/outboxrelay/outbox/storetest"
)

// wrongTx stands before a sound transaction. Nil hooks change nothing.
type wrongTx struct {
	suiteTx
	message  func(m *outbox.Message)
	publish  func(ctx context.Context, tx suiteTx, ms []outbox.Message) ([]outbox.Receipt, error)
	rollback func(tx suiteTx)
	settle   func(ctx context.Context, tx suiteTx, d *outbox.Delivery) error
}

func (tx wrongTx) Publish(ctx context.Context, ms ...outbox.Message) ([]outbox.Receipt, error) {
	changed := slices.Clone(ms)
	for i := range changed {
		if tx.message != nil {
			tx.message(&changed[i])
		}
	}
	if tx.publish != nil {
		return tx.publish(ctx, tx.suiteTx, changed)
	}
	return tx.suiteTx.Publish(ctx, changed...)
}

func (tx wrongTx) Rollback(ctx context.Context) error {
	if tx.rollback != nil {
		tx.rollback(tx.suiteTx)
	}
	return tx.suiteTx.Rollback(ctx)
}

func inTx(make func(b *box) wrongTx) func(h *harness) {
	return func(h *harness) {
		hooks := make(h.store.box)
		h.wrapTx = func(tx storetest.Tx) storetest.Tx {
			w := hooks
			w.suiteTx = tx.(suiteTx)
			return w
		}
	}
}

// changing plants a change of every published message.
func changing(change func(m *outbox.Message)) func(h *harness) {
	return inTx(func(*box) wrongTx { return wrongTx{message: change} })
}

func wrongTransactions() []wrong {
	return slices.Concat(wrongVisibility(), wrongMessages(), wrongDedup())
}

func wrongVisibility() []wrong {
	return []wrong{
		{"uncommitted messages are seen", inTx(func(b *box) wrongTx {
			return wrongTx{publish: func(ctx context.Context, _ suiteTx, ms []outbox.Message) ([]outbox.Receipt, error) {
				return (&Store{box: b}).Publish(ctx, ms...)
			}}
		}), []string{
			"a message is claimable from its commit on and not before",
			"a rolled back message never exists",
		}},
		{"a rolled back transaction is committed", inTx(func(b *box) wrongTx {
			return wrongTx{rollback: func(tx suiteTx) {
				b.mu.Lock()
				defer b.mu.Unlock()
				for _, r := range tx.rows {
					b.rows[r.seq] = r
				}
			}}
		}), []string{"a rolled back message never exists", "a random schedule of failures keeps every promise"}},
		{"messages before a refused one are published", inTx(func(*box) wrongTx {
			return wrongTx{publish: func(ctx context.Context, tx suiteTx, ms []outbox.Message) (all []outbox.Receipt, _ error) {
				for _, m := range ms {
					receipts, err := tx.Publish(ctx, m)
					if err != nil {
						return nil, err
					}
					all = append(all, receipts...)
				}
				return all, nil
			}}
		}), []string{"a message beyond the limits is refused before anything is published"}},
		{"a call is published in reverse", inTx(func(*box) wrongTx {
			return wrongTx{publish: func(ctx context.Context, tx suiteTx, ms []outbox.Message) ([]outbox.Receipt, error) {
				slices.Reverse(ms)
				receipts, err := tx.Publish(ctx, ms...)
				slices.Reverse(receipts)
				return receipts, err
			}}
		}), []string{"ten messages are kept in the order of the call"}},
	}
}

func wrongMessages() []wrong {
	return []wrong{
		{"NUL bytes are lost", changing(func(m *outbox.Message) {
			m.Payload = bytes.ReplaceAll(m.Payload, []byte{0}, nil)
		}), []string{"payloads survive byte for byte"}},
		{"header names are folded", changing(func(m *outbox.Message) {
			folded := map[string]string{}
			for name, value := range m.Headers {
				folded[strings.ToLower(name)] = value
			}
			m.Headers = folded
		}), []string{"headers survive as written"}},
		{"the number of attempts is lost", changing(func(m *outbox.Message) { m.MaxAttempts = 0 }),
			[]string{"the settings of a message survive"}},
		{"delays are ignored", changing(func(m *outbox.Message) { m.Delay, m.DeliverAt = 0, time.Time{} }),
			[]string{"a delayed message comes at its time by the outbox's clock"}},
		{"the past is taken for the future", changing(func(m *outbox.Message) {
			if ago := time.Since(m.DeliverAt); !m.DeliverAt.IsZero() && ago > 0 {
				m.DeliverAt = time.Now().Add(ago)
			}
		}), []string{"a message for the past comes at once"}},
		{"all messages share a key", changing(func(m *outbox.Message) { m.Key = "k" }), []string{
			"messages without a key do not wait for each other",
			"two relays that claim at the same time share everything and nothing twice",
		}},
		{"own ids are not kept", changing(func(m *outbox.Message) { m.ID = outbox.ID{} }), []string{
			"receipts name the ids, own ids are kept",
			"an id that is there already is refused",
		}},
	}
}

func wrongDedup() []wrong {
	return []wrong{
		{"dedup keys are ignored", changing(func(m *outbox.Message) { m.DedupKey = "" }),
			[]string{"a dedup key keeps out duplicates while its message is there"}},
		{"dedup keys are compared without case", changing(func(m *outbox.Message) {
			m.DedupKey = strings.ToLower(m.DedupKey)
		}), []string{"a dedup key belongs to its topic"}},
		{"dedup keys are never free", func(h *harness) { h.store.box.dedupWindow = 1000 * time.Hour }, []string{
			"a dedup key keeps out duplicates while its message is there",
			"maintenance removes free dedup keys only, in portions",
		}},
		{"a dedup key is free when its message is dead", hooked(func(b *box) wrongStore {
			return wrongStore{after: onRow(b, outbox.Died, func(r *row, _ outbox.Outcome) {
				delete(b.names, name{r.Topic, r.DedupKey})
			})}
		}), []string{"a dedup key of a dead message still keeps out duplicates"}},
		{"a rolled back dedup key is kept", inTx(func(b *box) wrongTx {
			return wrongTx{rollback: func(tx suiteTx) {
				b.mu.Lock()
				defer b.mu.Unlock()
				for _, n := range tx.names {
					b.names[n].tx, b.names[n].expires = nil, b.now().Add(time.Hour)
				}
				tx.names = nil
			}}
		}), []string{"a rolled back dedup key is free"}},
	}
}
