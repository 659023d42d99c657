package orm

import (
	"context"
	"database/sql"

	"github.com/outboxrelay/outbox/examples/orm/sqlcdb"
	"github.com/outboxrelay/outbox/pgstore"
)

//go:generate go run github.com/sqlc-dev/sqlc/cmd/sqlc@v1.31.1 generate

// PlaceOrderWithSqlc uses the code that sqlc generates: PublishSQL takes the *sql.Tx that WithTx takes. With
// sql_package pgx/v5 in sqlc.yaml that is a pgx.Tx, for Publish.
func PlaceOrderWithSqlc(ctx context.Context, db *sql.DB, publisher *pgstore.Publisher, order sqlcdb.InsertOrderParams) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() // does nothing after the commit
	id, err := sqlcdb.New(db).WithTx(tx).InsertOrder(ctx, order)
	if err != nil {
		return err
	}
	if _, err := publisher.PublishSQL(ctx, tx, orderPlaced(id, order.CustomerID, order.Total)); err != nil {
		return err
	}
	return tx.Commit()
}
