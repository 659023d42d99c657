package demo

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outboxrelay/outbox"
	"github.com/outboxrelay/outbox/pgstore"
)

var (
	//go:embed queries/create_orders.sql
	createOrdersSQL string
	//go:embed queries/drop_schema.sql
	dropSchemaSQL string
	//go:embed queries/sessions.sql
	sessionsSQL string
	//go:embed queries/lock_messages.sql
	lockMessagesSQL string
	//go:embed queries/end_sessions.sql
	endSessionsSQL string
	//go:embed queries/insert_order.sql
	insertOrderSQL string
)

// postgres is a schema in a PostgreSQL database.
type postgres struct {
	name      string
	address   string
	pool      *pgxpool.Pool
	store     *pgstore.Store
	publisher *pgstore.Publisher
	insertSQL string
}

var _ database = (*postgres)(nil)

// openPostgres makes a schema of its own; onClose is told what ends it.
func openPostgres(ctx context.Context, url, schema string, onClose func(func(context.Context) error)) (*postgres, error) {
	cfg, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, errors.New("--database is neither sqlite: nor a PostgreSQL URL or connection string")
	}
	const watching = 3
	cfg.MaxConns = writers + watching
	p := &postgres{name: schema, address: url}
	if p.pool, err = pgxpool.NewWithConfig(ctx, cfg); err != nil {
		return nil, fmt.Errorf("connect to PostgreSQL: %w", err)
	}
	onClose(func(context.Context) error { p.pool.Close(); return nil })
	if err := p.pool.Ping(ctx); err != nil {
		return nil, err // says where
	}
	log := slog.New(slog.NewTextHandler(io.Discard, nil))
	if p.store, err = pgstore.New(p.pool, &pgstore.Config{Schema: schema, Logger: log}); err != nil {
		return nil, err
	}
	onClose(func(context.Context) error { p.store.Close(); return nil })
	if p.publisher, err = pgstore.NewPublisher(&pgstore.PublishConfig{Schema: schema, MaxPayload: outbox.MaxPayloadCeiling}); err != nil {
		return nil, err
	}
	onClose(func(ctx context.Context) error { return p.exec(ctx, dropSchemaSQL) })
	if err := p.store.Migrate(ctx); err != nil {
		return nil, fmt.Errorf("make the outbox: %w", err)
	}
	p.insertSQL = p.sql(insertOrderSQL)
	return p, p.exec(ctx, createOrdersSQL)
}

func (p *postgres) kind() string             { return "PostgreSQL" }
func (p *postgres) url() string              { return p.address }
func (p *postgres) schema() string           { return p.name }
func (p *postgres) outbox() outbox.Inspector { return p.store }

// sql puts the schema's name into a statement.
func (p *postgres) sql(text string) string {
	return strings.NewReplacer("demo.", p.name+".", "demo cascade", p.name+" cascade").Replace(text)
}

func (p *postgres) exec(ctx context.Context, sql string) error {
	if _, err := p.pool.Exec(ctx, p.sql(sql)); err != nil {
		return fmt.Errorf("schema %s: %w", p.name, err)
	}
	return nil
}

func (p *postgres) transaction(ctx context.Context, i int, m outbox.Message, outcome error) (id outbox.ID, err error) {
	err = pgx.BeginFunc(ctx, p.pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, p.insertSQL, i+1, m.Key); err != nil {
			return fmt.Errorf("insert order %d: %w", i+1, err)
		}
		receipts, err := p.publisher.Publish(ctx, tx, m)
		if err != nil {
			return fmt.Errorf("order %d: %w", i+1, err)
		}
		id = receipts[0].ID
		return outcome
	})
	return id, err
}

func (p *postgres) holdSettling(ctx context.Context) (release func(context.Context) error, err error) {
	tx, err := p.pool.Begin(ctx)
	if err != nil {
		return nil, err
	}
	if _, err := tx.Exec(ctx, p.sql(lockMessagesSQL)); err != nil {
		return nil, errors.Join(err, tx.Rollback(ctx))
	}
	return tx.Rollback, nil
}

func (p *postgres) endSessions(ctx context.Context, relay string) error {
	if _, err := p.pool.Exec(ctx, endSessionsSQL, relay); err != nil {
		return err
	}
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	for {
		var n int
		if err := p.pool.QueryRow(ctx, sessionsSQL, relay).Scan(&n); err != nil || n == 0 {
			return err
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
