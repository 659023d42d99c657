package orm

import (
	"context"

	"github.com/uptrace/bun"

	"github.com/outboxrelay/outbox/pgstore"
)

// PlaceOrderWithBun uses bun: PublishSQL takes the *sql.Tx inside the bun.Tx. The bun.Tx itself is no Querier that
// works: its methods put arguments in place of ?, never of $1.
func PlaceOrderWithBun(ctx context.Context, db *bun.DB, publisher *pgstore.Publisher, order Order) error {
	return db.RunInTx(ctx, nil, func(ctx context.Context, tx bun.Tx) error {
		if _, err := tx.NewInsert().Model(&order).Exec(ctx); err != nil {
			return err
		}
		_, err := publisher.PublishSQL(ctx, tx.Tx, orderPlaced(order.ID, order.CustomerID, order.Total))
		return err
	})
}
