package orm

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outboxrelay/outbox/pgstore"
)

// PlaceOrderWithPgx uses pgx without database/sql: Publish takes the pgx.Tx.
func PlaceOrderWithPgx(ctx context.Context, pool *pgxpool.Pool, publisher *pgstore.Publisher, order Order) error {
	return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		err := tx.QueryRow(ctx, "insert into orders (customer_id, total) values ($1, $2) returning id",
			order.CustomerID, order.Total).Scan(&order.ID)
		if err != nil {
			return err
		}
		_, err = publisher.Publish(ctx, tx, orderPlaced(order.ID, order.CustomerID, order.Total))
		return err
	})
}
