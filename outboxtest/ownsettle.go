package outboxtest

import (
	"context"
	"fmt"
	"slices"

	"github.com/outboxrelay/outbox"
)

// ending is a message that a handler's transaction settles, and the claim that it keeps by that.
type ending struct {
	row   *row
	claim *claim
}

// Settle settles a message in the transaction, for the handler that has got it: the message ends, as delivered, if the
// transaction commits. It fails with outbox.ErrLeaseLost when the relay does not hold the message any more, and spoils
// the transaction then. Until the transaction ends nobody takes the relay's claim over, even if its lease lapses.
func (tx *Tx) Settle(_ context.Context, d *outbox.Delivery) error {
	d.SettlesInTx(func(ctx context.Context) (bool, error) { return tx.box.hasEnded(ctx, d.Seq) })
	b := tx.box
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := tx.usable(); err != nil {
		return err
	}
	c, r := b.claims[d.Claim.ID], b.rows[d.Seq]
	switch {
	case !b.rules.ownsInTx(c, d.Claim):
		tx.failed = fmt.Errorf("settle message %s: %w", d.ID, outbox.ErrLeaseLost)
	case r == nil || r.claim != c || r.state == dead || r.settling != nil:
		tx.failed = fmt.Errorf("settle message %s: it was settled before", d.ID)
	default:
		r.settling = tx
		c.settling++
		tx.ends = append(tx.ends, ending{r, c})
	}
	return tx.failed
}

// hasEnded tells whether a message is gone, after the transaction that is settling it, if there is one.
func (b *box) hasEnded(ctx context.Context, seq int64) (bool, error) {
	for {
		r, tx := b.settlingOf(seq)
		if tx == nil {
			return r == nil || r.state == dead, nil
		}
		select {
		case <-tx.done:
		case <-ctx.Done():
			return false, ctx.Err()
		}
	}
}

func (b *box) settlingOf(seq int64) (*row, *Tx) {
	b.mu.Lock()
	defer b.mu.Unlock()
	r := b.rows[seq]
	if r == nil {
		return nil, nil
	}
	return r, r.settling
}

// forgetEnded takes messages that have ended in their handlers' transactions off the claims of relays that never
// came to hear of it.
func (b *box) forgetEnded() {
	for _, c := range b.claims {
		if b.isLive(c) {
			continue
		}
		for _, r := range slices.Clone(c.rows) {
			if b.rows[r.seq] != r {
				b.unlist(r)
			}
		}
	}
}
