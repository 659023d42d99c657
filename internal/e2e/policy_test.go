package e2e

import (
	"github.com/outboxrelay/outbox"
	"github.com/outboxrelay/outbox/internal/history"
)

// policy is an order of keys as the relay, the checker and the handlers of a test know it.
type policy struct {
	relay   outbox.Order
	history history.Order
	// dooms tells whether a message that is to fail for good does so this time.
	dooms func(d *outbox.Delivery) bool
}

func always(*outbox.Delivery) bool { return true }

var policies = map[string]policy{
	"":     {outbox.OrderSkip, history.Skip, always},
	"skip": {outbox.OrderSkip, history.Skip, always},
	"none": {outbox.OrderNone, history.None, always},
	// A blocked key goes on when its head succeeds at last, a parked one when an operator has redriven it.
	"block": {outbox.OrderBlock, history.Block, func(d *outbox.Delivery) bool { return d.Attempt < 3 }},
	"park":  {outbox.OrderPark, history.Park, func(d *outbox.Delivery) bool { return d.Generation == 0 }},
}
