package pgstore

import (
	"context"

	"github.com/jackc/pgx/v5"
)

// MigratedDatabase makes a database with the outbox for an Example, which drops it when it is done.
func MigratedDatabase() (url string, drop func()) {
	return postgres.DatabaseForExample("migrated", migrateDatabase)
}

func migrateDatabase(ctx context.Context, url string) error {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	return migrateUp(ctx, conn, DefaultSchema)
}
