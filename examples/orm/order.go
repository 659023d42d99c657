package orm

import (
	"fmt"
	"strconv"

	"github.com/outboxrelay/outbox"
)

// Order is a row of the application's table, for all ORMs but ent, which generates its own.
type Order struct {
	ID         int64 `bun:",pk,autoincrement" db:"id"`
	CustomerID int64 `db:"customer_id"`
	Total      int64 `db:"total"`
}

// orderPlaced is the message about an order. The key keeps the messages of a customer in order.
func orderPlaced(id, customerID, total int64) outbox.Message {
	return outbox.Message{
		Topic:       "orders.placed",
		Key:         strconv.FormatInt(customerID, 10),
		ContentType: "application/json",
		Payload:     fmt.Appendf(nil, `{"order":%d,"total":%d}`, id, total),
	}
}
