package demo

import (
	"fmt"

	"github.com/outboxrelay/outbox"
)

const customers = 50

// Order is the message of the generated order i; the key is the customer's.
func Order(i int) outbox.Message {
	customer := fmt.Sprintf("customer-%02d", i*7919%customers)
	return outbox.Message{
		Topic: "orders.placed", Key: customer, ContentType: "application/json",
		Payload: fmt.Appendf(nil, `{"order":%d,"customer":"%s","cents":%d}`, i+1, customer, 100+i*37%9900),
	}
}
