package pgstore

import (
	"context"
	_ "embed"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/outboxrelay/outbox/internal/connecting"
)

//go:embed queries/check_wal.sql
var checkWALSQL string

// wal looks for what the WAL engine needs, if that is the store's.
func (c *checker) wal(ctx context.Context) bool {
	s := c.store
	if s.cfg.Engine != EngineWAL {
		return true
	}
	var level string
	var slots, used, senders int
	var published, may bool
	err := s.inspect(ctx, func(tx pgx.Tx) error {
		return tx.QueryRow(ctx, render(checkWALSQL, s.cfg.Schema), pgx.QueryExecModeExec, publicationName(s.cfg.Schema)).
			Scan(&level, &slots, &used, &senders, &published, &may)
	})
	if err != nil {
		c.failed("wal", err)
		return true
	}
	if level != "logical" {
		c.bad("wal level", fmt.Sprintf("wal_level is %s, and a relay polls; it takes a restart of the server to change", level), adviceWALLevel)
	} else {
		c.good("wal level", "logical")
	}
	if used >= slots {
		c.bad("wal slots", fmt.Sprintf("all %d replication slots are in use, and a relay polls; drop one that nobody needs, or have more, which takes a restart of the server", slots),
			fmt.Sprintf("alter system set max_replication_slots = %d;", slots+moreSlots))
	} else {
		c.good("wal slots", "one is needed; others use %d of %d", used, slots)
	}
	switch {
	case published:
		c.good("publication", "%s has new messages", publicationName(s.cfg.Schema))
	case may:
		c.good("publication", "%s is missing; a relay that streams makes it", publicationName(s.cfg.Schema))
	default:
		c.bad("publication", publicationName(s.cfg.Schema)+" is missing, and this role may not make it", advicePublication(s.cfg.Schema))
	}
	c.replication(ctx, senders)
	return true
}

// moreSlots is by how much a limit of the server is raised that is reached.
const moreSlots = 10

// replication connects as a relay that streams does: that shows rights, senders and poolers at once.
func (c *checker) replication(ctx context.Context, senders int) {
	conn, err := c.store.connectToReplicate(ctx)
	if err != nil {
		err = connecting.Explain(err)
		problem, fix := err.Error(), adviceListen
		var advised *adviceError
		if errors.As(c.store.explainStream(err), &advised) {
			problem, fix = advised.problem+": "+err.Error(), advised.advice
		}
		if fix == adviceCheck { // which is this
			problem += "; it takes a restart of the server to have more"
			fix = fmt.Sprintf("alter system set max_wal_senders = %d;", senders+moreSlots)
		}
		c.bad("wal connection", problem, fix)
		return
	}
	ctx, cancel := context.WithTimeout(ctx, checkPatience)
	defer cancel()
	_ = conn.Close(ctx)
	c.good("wal connection", "this role may replicate, and a WAL sender is free")
}
