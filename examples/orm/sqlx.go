package orm

import (
	"context"

	"github.com/jmoiron/sqlx"

	"github.com/outboxrelay/outbox/pgstore"
)

// PlaceOrderWithSqlx uses sqlx: PublishSQL takes the *sql.Tx inside the *sqlx.Tx.
func PlaceOrderWithSqlx(ctx context.Context, db *sqlx.DB, publisher *pgstore.Publisher, order Order) error {
	tx, err := db.BeginTxx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() // does nothing after the commit
	err = tx.GetContext(ctx, &order, "insert into orders (customer_id, total) values ($1, $2) returning *",
		order.CustomerID, order.Total)
	if err != nil {
		return err
	}
	if _, err := publisher.PublishSQL(ctx, tx.Tx, orderPlaced(order.ID, order.CustomerID, order.Total)); err != nil {
		return err
	}
	return tx.Commit()
}
