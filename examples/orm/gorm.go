package orm

import (
	"context"

	"gorm.io/gorm"

	"github.com/outboxrelay/outbox/pgstore"
)

// PlaceOrderWithGORM uses GORM, with PrepareStmt and without: PublishQuerier takes the transaction's ConnPool, which is
// a *gorm.PreparedStmtTX or a *sql.Tx.
func PlaceOrderWithGORM(ctx context.Context, db *gorm.DB, publisher *pgstore.Publisher, order Order) error {
	return db.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
		if err := tx.Create(&order).Error; err != nil {
			return err
		}
		_, err := publisher.PublishQuerier(ctx, tx.Statement.ConnPool, orderPlaced(order.ID, order.CustomerID, order.Total))
		return err
	})
}
