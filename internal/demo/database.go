package demo

import (
	"context"

	"github.com/outboxrelay/outbox"
)

// database is where the application and the outbox are.
type database interface {
	// kind is its name, for people.
	kind() string
	// url is what relays are given.
	url() string
	// schema is the outbox's, as relays are told.
	schema() string
	outbox() outbox.Inspector
	// transaction inserts an order and its message, and commits unless there is an outcome, which is the error then.
	transaction(ctx context.Context, i int, m outbox.Message, outcome error) (outbox.ID, error)
	// holdSettling keeps relays from settling what is committed so far, until release.
	holdSettling(ctx context.Context) (release func(context.Context) error, err error)
	// endSessions ends what a killed relay has sent and that is not carried out, and returns when nothing is left of it.
	endSessions(ctx context.Context, relay string) error
}
