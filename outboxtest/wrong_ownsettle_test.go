package outboxtest

import (
	"context"

	"github.com/outboxrelay/outbox"
)

// Settle settles in the sound transaction, unless a hook does otherwise.
func (tx wrongTx) Settle(ctx context.Context, d *outbox.Delivery) error {
	if tx.settle != nil {
		return tx.settle(ctx, tx.suiteTx, d)
	}
	return tx.suiteTx.Settle(ctx, d)
}

func settling(settle func(ctx context.Context, tx suiteTx, d *outbox.Delivery) error) func(h *harness) {
	return inTx(func(*box) wrongTx { return wrongTx{settle: settle} })
}

func wrongOwnSettles() []wrong {
	return []wrong{
		{"settling in a transaction is not fenced", rule(func(r *rules) {
			r.ownsInTx = func(*claim, outbox.ClaimRef) bool { return true }
		}), []string{"settling in a transaction is fenced after a takeover"}},
		{"a takeover ignores open transactions", rule(func(r *rules) {
			r.keeps = func(*claim) bool { return false }
		}), []string{"a transaction that outlives the lease keeps its message"}},
		{"an open transaction keeps the others of its claim from being settled", rule(func(r *rules) {
			sound := *r
			r.owns = func(c *claim, ref outbox.ClaimRef) bool { return sound.owns(c, ref) && c.settling == 0 }
		}), []string{"others of a claim settle while a transaction is open"}},
		{"settling in a transaction does nothing", settling(func(context.Context, suiteTx, *outbox.Delivery) error {
			return nil
		}), []string{"a message settled in a transaction ends with its commit"}},
		{"settling in a transaction does not wait for its commit", settling(func(ctx context.Context, tx suiteTx, d *outbox.Delivery) error {
			other := (&Store{box: tx.box}).Begin()
			if err := other.Settle(ctx, d); err != nil {
				return err
			}
			return other.Commit()
		}), []string{
			"a message settled in a transaction that is rolled back is still held",
			"a relay delivers again what its handler did not commit",
		}},
		{"a message may be settled again", settling(func(ctx context.Context, tx suiteTx, d *outbox.Delivery) error {
			tx.box.mu.Lock()
			gone := tx.box.rows[d.Seq] == nil || tx.box.rows[d.Seq].settling != nil
			tx.box.mu.Unlock()
			if gone {
				return nil
			}
			return tx.Tx.Settle(ctx, d)
		}), []string{"a message is settled in one transaction, once"}},
		{"settling in a transaction frees the key at once", settling(func(ctx context.Context, tx suiteTx, d *outbox.Delivery) error {
			if err := tx.Tx.Settle(ctx, d); err != nil {
				return err
			}
			tx.box.mu.Lock()
			defer tx.box.mu.Unlock()
			if r := tx.box.rows[d.Seq]; r.claim != nil {
				tx.box.unlist(r)
			}
			return nil
		}), []string{"a relay that dies after the commit leaves nothing behind"}},
	}
}
