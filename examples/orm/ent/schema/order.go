// Package schema is what ent generates its package from.
package schema

import (
	"entgo.io/ent"
	"entgo.io/ent/schema/field"
)

// Order is a row of the application's table.
type Order struct{ ent.Schema }

// Fields are the columns.
func (Order) Fields() []ent.Field {
	return []ent.Field{field.Int64("id"), field.Int64("customer_id"), field.Int64("total")}
}
