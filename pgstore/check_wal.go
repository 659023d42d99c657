package pgstore

import (
	"context"
	_ "embed"
	"fmt"

	"github.com/jackc/pgx/v5"
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
	var slots, used int
	var published, may bool
	err := s.inspect(ctx, func(tx pgx.Tx) error {
		return tx.QueryRow(ctx, render(checkWALSQL, s.cfg.Schema), pgx.QueryExecModeExec, publicationName(s.cfg.Schema)).
			Scan(&level, &slots, &used, &published, &may)
	})
	if err != nil {
		c.failed("wal", err)
		return true
	}
	if level != "logical" {
		c.bad("wal level", fmt.Sprintf("wal_level is %s, and a relay polls", level), adviceWALLevel+" and restart the server")
	} else {
		c.good("wal level", "logical")
	}
	if used >= slots {
		c.bad("wal slots", fmt.Sprintf("all %d replication slots are in use, and a relay polls", slots), adviceSlots+" and restart the server")
	} else {
		c.good("wal slots", "%d of %d are free, one is needed", slots-used, slots)
	}
	switch {
	case published:
		c.good("publication", "%s has new messages", publicationName(s.cfg.Schema))
	case may:
		c.good("publication", "%s is missing; a relay that streams makes it", publicationName(s.cfg.Schema))
	default:
		c.bad("publication", publicationName(s.cfg.Schema)+" is missing, and this role may not make it", advicePublication(s.cfg.Schema))
	}
	c.replication(ctx)
	return true
}

// replication connects as a relay that streams does: that shows rights, senders and poolers at once.
func (c *checker) replication(ctx context.Context) {
	conn, err := c.store.connectToReplicate(ctx)
	if err != nil {
		err = explainStream(c.store.cfg.Schema, err)
		c.bad("wal connection", err.Error(), streamFix(err))
		return
	}
	ctx, cancel := context.WithTimeout(ctx, checkPatience)
	defer cancel()
	_ = conn.Close(ctx)
	c.good("wal connection", "this role may replicate, and a WAL sender is free")
}
