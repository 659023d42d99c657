package pgstore

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/outboxrelay/outbox/internal/devservices/pgtest"
)

var postgres pgtest.Shared

func TestMain(m *testing.M) { os.Exit(postgres.Run(m)) }

// migratedDatabase makes a database with the outbox in the default schema and returns its connection string.
func migratedDatabase(t testing.TB) string {
	t.Helper()
	return postgres.DatabaseFrom(t, "migrated", migrateDatabase)
}

func connect(t testing.TB, url string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close(context.Background()) })
	return conn
}

func exec(t testing.TB, conn *pgx.Conn, sql string, args ...any) {
	t.Helper()
	if _, err := conn.Exec(t.Context(), sql, args...); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

// value returns the single value that a query finds.
func value[T any](t testing.TB, conn *pgx.Conn, sql string, args ...any) (v T) {
	t.Helper()
	if err := conn.QueryRow(t.Context(), sql, args...).Scan(&v); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return v
}

// values returns the single column that a query finds.
func values[T any](t testing.TB, conn *pgx.Conn, sql string, args ...any) []T {
	t.Helper()
	rows, err := conn.Query(t.Context(), sql, args...)
	if err == nil {
		var vs []T
		if vs, err = pgx.CollectRows(rows, pgx.RowTo[T]); err == nil {
			return vs
		}
	}
	t.Fatal(fmt.Errorf("%s: %w", sql, err))
	return nil
}

// sizeOf is how large a test is: a variable of the environment says, for product sizes.
func sizeOf(t testing.TB, variable string, usual int) int {
	t.Helper()
	text := os.Getenv(variable)
	if text == "" {
		return usual
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		t.Fatalf("%s=%s: must be a number of messages", variable, text)
	}
	return n
}
