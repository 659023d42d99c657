package pgstore_test

import (
	"context"
	"log"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outboxrelay/outbox/pgstore"
)

// shop is the database of an application: with the outbox, and a table of its own. done closes and drops it.
func shop(ctx context.Context) (pool *pgxpool.Pool, done func()) {
	url, drop := shopURL(ctx)
	pool, disconnect := connect(ctx, url)
	return pool, func() {
		disconnect()
		drop()
	}
}

// shopURL is shop before the application connects.
func shopURL(ctx context.Context) (url string, drop func()) {
	url, drop = pgstore.MigratedDatabase()
	pool, disconnect := connect(ctx, url)
	defer disconnect()
	if _, err := pool.Exec(ctx, "create table orders (id text primary key)"); err != nil {
		log.Fatal(err)
	}
	return url, drop
}

func connect(ctx context.Context, url string) (pool *pgxpool.Pool, disconnect func()) {
	pool, err := pgxpool.New(ctx, url)
	if err != nil {
		log.Fatal(err)
	}
	return pool, pool.Close
}
