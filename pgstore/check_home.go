package pgstore

import (
	"context"
	_ "embed"
	"fmt"

	"github.com/jackc/pgx/v5"
)

//go:embed queries/check_home.sql
var checkHomeSQL string

// home compares the database with the one that the outbox was made in. Relays on a copy deliver what the original delivers,
// too: it has all that was undelivered when it was made.
func (c *checker) home(ctx context.Context) bool {
	s := c.store
	var made, here string
	err := s.inspect(ctx, func(tx pgx.Tx) error { return s.queryRow(ctx, tx, checkHomeSQL).Scan(&made, &here) })
	adopt := render("insert into outbox.setting (name, value) values ('home', outbox.home()) on conflict (name) do update set value = excluded.value;", s.cfg.Schema)
	switch {
	case err != nil:
		c.failed("copy", err)
	case made == "":
		c.bad("copy", "nobody knows which database the outbox was made in; if it is this one, write that down", adopt)
	case made != here:
		c.bad("copy", fmt.Sprintf("this is a restored or copied database (the outbox was made in %s, this is %s): relays here deliver again what the original has delivered since, "+
			"or still will. If this database takes the original's place, write that down", made, here), adopt)
	default:
		c.good("copy", "the outbox was made in this database")
	}
	return true
}
