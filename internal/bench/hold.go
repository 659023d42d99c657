package bench

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
)

// HoldFunc opens a transaction and leaves it open; the function that it returns ends it. Nil holds nothing.
type HoldFunc func(ctx context.Context, b *Bed) (func() error, error)

// Start is for a hold that may be nil.
func (h HoldFunc) Start(ctx context.Context, b *Bed) (func() error, error) {
	if h == nil {
		return func() error { return nil }, nil
	}
	return h(ctx, b)
}

// HoldReader has a snapshot, as a report does.
func HoldReader(ctx context.Context, b *Bed) (func() error, error) {
	return hold(ctx, b, pgx.TxOptions{IsoLevel: pgx.RepeatableRead}, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, "select count(*) from pg_class")
		return err
	})
}

// HoldWriter wrote to a table that is none of the outbox's.
func HoldWriter(ctx context.Context, b *Bed) (func() error, error) {
	return hold(ctx, b, pgx.TxOptions{}, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, b.sql(workSQL), Writers*accounts-1)
		return err
	})
}

// HoldPublisher has published and never commits: its message is not to be seen by anybody.
func HoldPublisher(ctx context.Context, b *Bed) (func() error, error) {
	return hold(ctx, b, pgx.TxOptions{}, func(tx pgx.Tx) error {
		return b.Insert()(ctx, tx, NewPayload(0, payloadBytes))
	})
}

func hold(ctx context.Context, b *Bed, options pgx.TxOptions, do func(tx pgx.Tx) error) (func() error, error) {
	conn, err := pgx.ConnectConfig(ctx, b.config.ConnConfig.Copy())
	if err != nil {
		return nil, err
	}
	release := func() error {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		return conn.Close(ctx) // which rolls back
	}
	tx, err := conn.BeginTx(ctx, options)
	if err == nil {
		err = do(tx)
	}
	if err != nil {
		return nil, errors.Join(err, release())
	}
	return release, nil
}
