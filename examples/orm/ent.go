package orm

import (
	"context"
	"errors"

	"github.com/outboxrelay/outbox/examples/orm/ent"
	"github.com/outboxrelay/outbox/pgstore"
)

//go:generate go run entgo.io/ent/cmd/ent@v0.14.5 generate --feature sql/execquery ./ent/schema

// PlaceOrderWithEnt uses ent: with the feature sql/execquery, PublishQuerier takes the *ent.Tx.
func PlaceOrderWithEnt(ctx context.Context, client *ent.Client, publisher *pgstore.Publisher, customerID, total int64) error {
	tx, err := client.Tx(ctx)
	if err != nil {
		return err
	}
	order, err := tx.Order.Create().SetCustomerID(customerID).SetTotal(total).Save(ctx)
	if err == nil {
		_, err = publisher.PublishQuerier(ctx, tx, orderPlaced(order.ID, order.CustomerID, order.Total))
	}
	if err != nil {
		return errors.Join(err, tx.Rollback())
	}
	return tx.Commit()
}
