package pgdev

import (
	"context"
	_ "embed"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
)

//go:embed terminate.sql
var terminateSQL string

//go:embed prepared.sql
var preparedSQL string

//go:embed slots.sql
var slotsSQL string

// Terminate ends the connections of all clients to the database, replication included, and returns how many there
// were; "" means all databases.
func (c *Cluster) Terminate(ctx context.Context, database string) (n int, err error) {
	err = c.connected(ctx, c.url, func(conn *pgx.Conn) error {
		return conn.QueryRow(ctx, terminateSQL, database).Scan(&n)
	})
	if err != nil {
		return 0, fmt.Errorf("terminate connections: %w", err)
	}
	return n, nil
}

// Drop drops a database together with everything that would keep it: connections, prepared transactions and logical
// replication slots.
func (c *Cluster) Drop(ctx context.Context, database string) error {
	err := c.connected(ctx, c.url, func(conn *pgx.Conn) error { return c.drop(ctx, conn, database) })
	if err != nil {
		return fmt.Errorf("drop database %s: %w", database, err)
	}
	return nil
}

func (c *Cluster) drop(ctx context.Context, conn *pgx.Conn, database string) error {
	if err := c.rollbackPrepared(ctx, conn, database); err != nil {
		return err
	}
	if _, err := conn.Exec(ctx, terminateSQL, database); err != nil {
		return err
	}
	if _, err := conn.Exec(ctx, slotsSQL, database); err != nil {
		return err
	}
	_, err := conn.Exec(ctx, "drop database if exists "+pgx.Identifier{database}.Sanitize()+" with (force)")
	return err
}

// rollbackPrepared needs a connection to the database itself, which is the only place to end its transactions.
func (c *Cluster) rollbackPrepared(ctx context.Context, conn *pgx.Conn, database string) error {
	rows, err := conn.Query(ctx, preparedSQL, database)
	if err != nil {
		return err
	}
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil || len(names) == 0 {
		return err
	}
	return c.connected(ctx, c.URL(database), func(conn *pgx.Conn) error {
		for _, name := range names {
			if _, err := conn.Exec(ctx, "rollback prepared "+literal(name)); err != nil {
				return err
			}
		}
		return nil
	})
}

// literal is for the statements that take no parameters.
func literal(text string) string {
	return "'" + strings.ReplaceAll(text, "'", "''") + "'"
}
