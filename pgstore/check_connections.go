package pgstore

import (
	"context"
	_ "embed"
	"fmt"

	"github.com/jackc/pgx/v5"
)

//go:embed queries/check_connections.sql
var checkConnectionsSQL string

// relayConnections is how many connections a relay with this store has at most: those of the pool, the heartbeat's, the
// listener's and the stream's.
func (s *Store) relayConnections() int {
	n := int(s.pool.Config().MaxConns) + 1
	if s.cfg.Notify != NotifyOff {
		n++
	}
	if s.cfg.Engine == EngineWAL {
		n++
	}
	return n
}

// budget is a limit of connections: the server's, the role's or the database's.
type budget struct {
	what  string // in words
	limit int    // for this role; below zero: none
	used  int
	raise func(to int) string
}

// problem is what will go wrong when one more relay starts, or when all that run have all their connections. Empty: nothing.
func (b budget) problem(need, relays int) string {
	switch {
	case b.limit < 0:
	case b.limit-b.used < need:
		return fmt.Sprintf("a relay needs %d connections and %d are free: %s, %d in use", need, max(b.limit-b.used, 0), b.what, b.used)
	case b.limit < need*relays:
		return fmt.Sprintf("%d live relays may need %d connections, %d each: %s", relays, need*relays, need, b.what)
	}
	return ""
}

// enough is a limit that leaves room for another relay beside what is used and what the live ones may use.
func (b budget) enough(need, relays int) int {
	const step = 10
	return (max(b.used, need*relays)+2*need+step-1)/step*step + step
}

// connections compares the connections that a relay needs with those that are left.
func (c *checker) connections(ctx context.Context) bool {
	s := c.store
	var most, reserved, used, roleLimit, roleUsed, databaseLimit, databaseUsed, relays int
	var role, database string
	err := s.inspect(ctx, func(tx pgx.Tx) error {
		return s.queryRow(ctx, tx, checkConnectionsSQL).Scan(&most, &reserved, &used, &role, &roleLimit, &roleUsed,
			&database, &databaseLimit, &databaseUsed, &relays)
	})
	if err != nil {
		c.failed("connections", err)
		return true
	}
	need := s.relayConnections()
	server := fmt.Sprintf("max_connections is %d", most)
	if reserved > 0 {
		server = fmt.Sprintf("%s, of which %d are reserved", server, reserved)
	}
	budgets := []budget{
		{server + ", which takes a restart to change", most - reserved, used, func(to int) string {
			return fmt.Sprintf("alter system set max_connections = %d;", max(to+reserved, most+need))
		}},
		{fmt.Sprintf("the role %s may have %d", role, roleLimit), roleLimit, roleUsed, func(to int) string {
			return fmt.Sprintf("alter role %s connection limit %d;", quoteName(role), to)
		}},
		{fmt.Sprintf("the database %s may have %d", database, databaseLimit), databaseLimit, databaseUsed, func(to int) string {
			return fmt.Sprintf("alter database %s connection limit %d;", quoteName(database), to)
		}},
	}
	fine := true
	for _, b := range budgets {
		if text := b.problem(need, relays); text != "" {
			fine = false
			c.bad("connections", text, b.raise(b.enough(need, relays)))
		}
	}
	if fine {
		c.good("connections", "a relay needs %d, %d are free; live relays: %d", need, most-reserved-used, relays)
	}
	return true
}

// quoteName quotes an identifier.
func quoteName(name string) string { return pgx.Identifier{name}.Sanitize() }
