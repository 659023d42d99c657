package pgstore

import (
	"context"
	_ "embed"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/outboxrelay/outbox"
	"github.com/outboxrelay/outbox/internal/inwords"
)

//go:embed queries/check_vacuum.sql
var checkVacuumSQL string

// vacuum looks for what keeps vacuum from removing the rows of delivered messages.
func (c *checker) vacuum(ctx context.Context) bool {
	s := c.store
	var all bool
	var role string
	var holder *outbox.HorizonHolder
	err := s.inspect(ctx, func(tx pgx.Tx) (err error) {
		if err = s.queryRow(ctx, tx, checkVacuumSQL).Scan(&all, &role); err == nil {
			holder, err = readHorizon(ctx, tx, s.cfg.HorizonPatience)
		}
		return err
	})
	patience := inwords.Age(s.cfg.HorizonPatience)
	switch {
	case err != nil:
		c.failed("vacuum", err)
	case holder != nil:
		c.bad("vacuum", fmt.Sprintf("held back for %s by %s %s, %s", inwords.Age(holder.Age), holder.Kind, holder.Name, holder.Text), holder.Release())
	case !all:
		c.good("vacuum", "no transaction of this role has held it back for longer than %s; those of other roles are not seen without: grant pg_read_all_stats to %s;",
			patience, quoteName(role))
	default:
		c.good("vacuum", "no transaction has held it back for longer than %s", patience)
	}
	return true
}
