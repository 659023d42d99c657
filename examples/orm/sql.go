package orm

import (
	"context"
	"database/sql"

	"github.com/outboxrelay/outbox/pgstore"
)

// PlaceOrderWithSQL uses database/sql with any driver for PostgreSQL, such as lib/pq and pgx/stdlib: PublishSQL takes
// the *sql.Tx.
func PlaceOrderWithSQL(ctx context.Context, db *sql.DB, publisher *pgstore.Publisher, order Order) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() // does nothing after the commit
	err = tx.QueryRowContext(ctx, "insert into orders (customer_id, total) values ($1, $2) returning id",
		order.CustomerID, order.Total).Scan(&order.ID)
	if err != nil {
		return err
	}
	if _, err := publisher.PublishSQL(ctx, tx, orderPlaced(order.ID, order.CustomerID, order.Total)); err != nil {
		return err
	}
	return tx.Commit()
}
