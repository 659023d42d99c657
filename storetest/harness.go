package storetest

import (
	"context"
	"testing"
	"time"

	"github.com/outboxrelay/outbox"
)

// Harness gives one case an empty outbox of its own, with the default limits and a dedup window of 0. Its
// methods are called from the case's goroutine, except Begin and what it returns.
type Harness interface {
	// Open returns another Store on the outbox, as another process would have, ready for use. It is closed,
	// if need be, by t.Cleanup.
	Open(t testing.TB) outbox.Store
	// Begin starts a transaction of an application.
	Begin(ctx context.Context) (Tx, error)
	// Advance lets time pass for the outbox. Where its clock cannot be moved, all stored times are moved the
	// other way: leases, due times, expiry, publishing, the windows of dedup keys.
	Advance(ctx context.Context, d time.Duration) error
	// Counts counts what is committed.
	Counts(ctx context.Context) (Counts, error)
	// Dead lists the dead letters in publish order.
	Dead(ctx context.Context) ([]Dead, error)
	// Features says what the store does beyond the promises of outbox.Store.
	Features() Features
}

// Tx is a transaction of an application, ended by either Commit or Rollback.
type Tx interface {
	Publish(ctx context.Context, ms ...outbox.Message) ([]outbox.Receipt, error)
	Commit(ctx context.Context) error
	Rollback(ctx context.Context) error
}

// Settler is a Tx in which a handler settles its message. Those of a store with the feature OwnSettle are.
type Settler interface {
	// Settle ends the message, as delivered, if the transaction commits.
	Settle(ctx context.Context, d *outbox.Delivery) error
}

// Counts says how many messages are in which state, and how many claims there are.
type Counts struct {
	Ready   int // claimed ones included
	Waiting int // scheduled or backing off, claimed ones included
	Dead    int
	Claimed int // of the ready and waiting: listed by a claim, with or without a relay
	Claims  int // those without a relay included
}

// Dead is a dead letter.
type Dead struct {
	ID       outbox.ID
	Attempts int
	Class    string
	Text     string
	Holds    bool // its key
}

// Features are what stores may do differently.
type Features struct {
	// Notifications: Wait returns early after a commit or give-back by another process.
	Notifications bool
	// OwnSettle: handlers may settle their messages in transactions of their own; what Begin returns is a Settler.
	OwnSettle bool
	// Archive: what has ended may be kept; the harness is an ArchiveHarness.
	Archive bool
	// OneWriter: a transaction that has published is the only one that writes until it ends, so none can commit what it
	// published before another. In place of commits that come late the suite has messages that become due late, where it can.
	OneWriter bool
	// Patience is how long the suite claims until it gets what is claimable. Default 10 s.
	Patience time.Duration
}
