package e2e

import (
	"context"

	"github.com/outboxrelay/outbox"
	"github.com/outboxrelay/outbox/internal/crashtest"
	"github.com/outboxrelay/outbox/pgstore"
)

// redriver redrives everything that is dead, in ten batches a second.
func redriver(ctx context.Context, c *crashtest.Child) error {
	p, err := readPlan()
	if err != nil {
		return err
	}
	store, err := pgstore.Open(ctx, p.URL, nil)
	if err != nil {
		return err
	}
	defer store.Close()
	change := outbox.Change{Filter: outbox.Filter{All: true}, Rate: 200, Actor: c.Name, Reason: "killed"}
	if _, err := store.Redrive(ctx, change); err != nil {
		return err
	}
	return c.Announce("redriven")
}
