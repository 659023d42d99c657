package main

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outboxrelay/outbox/internal/bench"
)

// closers end what was started, the last first, once.
type closers struct{ list []func() error }

func (c *closers) add(end func() error) { c.list = append(c.list, end) }

func (c *closers) close() error {
	var errs []error
	for _, end := range slices.Backward(c.list) {
		errs = append(errs, end())
	}
	c.list = nil
	return errors.Join(errs...)
}

// holdFunc opens a transaction and leaves it open; the function that it returns ends it.
type holdFunc = func(ctx context.Context, b *bench.Bed) (func() error, error)

// holdReader has a snapshot, as a report does.
func holdReader(ctx context.Context, b *bench.Bed) (func() error, error) {
	return hold(ctx, b, pgx.TxOptions{IsoLevel: pgx.RepeatableRead}, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, "select count(*) from pg_class")
		return err
	})
}

// holdWriter wrote to a table that is none of the outbox's messages.
func holdWriter(ctx context.Context, b *bench.Bed) (func() error, error) {
	return hold(ctx, b, pgx.TxOptions{}, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, "update outbox.account set balance = balance + 1 where id = 7999")
		return err
	})
}

// holdPublisher has published and never commits: its message is not to be seen by anybody.
func holdPublisher(ctx context.Context, b *bench.Bed) (func() error, error) {
	return hold(ctx, b, pgx.TxOptions{}, func(tx pgx.Tx) error {
		return b.Insert()(ctx, tx, bench.NewPayload(0, 512))
	})
}

func hold(ctx context.Context, b *bench.Bed, options pgx.TxOptions, do func(tx pgx.Tx) error) (func() error, error) {
	conn, err := pgx.Connect(ctx, b.URL())
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
