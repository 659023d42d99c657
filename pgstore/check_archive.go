package pgstore

import (
	"context"
	_ "embed"
	"fmt"

	"github.com/jackc/pgx/v5"
)

//go:embed queries/check_archive.sql
var checkArchiveSQL string

// archive looks whether the archive has its partitions ahead, if relays keep what has ended.
func (c *checker) archive(ctx context.Context) bool {
	s := c.store
	var kept, ahead, hasDefault, isDetached bool
	var until, inTheWay string
	err := s.inspect(ctx, func(tx pgx.Tx) error {
		return tx.QueryRow(ctx, render(checkArchiveSQL, s.cfg.Schema), pgx.QueryExecModeExec, s.cfg.Archive.Granularity).
			Scan(&kept, &until, &ahead, &hasDefault, &isDetached, &inTheWay)
	})
	sql := func(text string) string { return render(text, s.cfg.Schema) }
	switch {
	case err != nil:
		c.failed("archive", err)
	case !kept && s.cfg.KeepDelivered != 0:
		c.good("archive", "nothing is kept yet; the first relay that starts makes its partitions")
	case !kept:
		c.good("archive", "off: messages are deleted when they have ended")
	case !hasDefault && isDetached:
		c.bad("archive", "the default partition is detached: no partition can be made, and what has none ends without being kept",
			sql("alter table outbox.archive attach partition outbox.archive_default default;"))
	case !hasDefault:
		c.bad("archive", "the default partition is missing: no partition can be made, and what has none ends without being kept",
			sql("create table outbox.archive_default partition of outbox.archive default;"))
	case ahead:
		c.good("archive", "partitions until %s", until)
	case inTheWay != "":
		table := quoteName(s.cfg.Schema) + "." + quoteName(inTheWay)
		c.bad("archive", fmt.Sprintf("%s was detached and keeps the name of a partition that is missing: what ends in its time goes to archive_default", inTheWay),
			fmt.Sprintf("alter table %s rename to %s;", table, quoteName("detached_"+inTheWay)))
	default:
		text := "there is no partition for now, archive_default takes what ends"
		if until != "" {
			text = "there are partitions until " + until + " only; archive_default takes what ends later"
		}
		c.bad("archive", text, fmt.Sprintf(sql("select outbox.add_partition(clock_timestamp(), '%s') from generate_series(1, 3);"), s.cfg.Archive.Granularity))
	}
	return true
}
