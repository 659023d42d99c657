package demo

import (
	"context"
	"crypto/rand"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/outboxrelay/outbox/internal/devservices"
	"github.com/outboxrelay/outbox/internal/devservices/natsdev"
	"github.com/outboxrelay/outbox/internal/devservices/pgdev"
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
)

// closePatience bounds the end of the services.
const closePatience = 20 * time.Second

// services are the database and the broker, private ones or existing ones, and what the demo makes in them: a schema
// and a stream of its own, both with the same name.
type services struct {
	name     string
	database string // URL
	to       string // URL

	pool   *pgxpool.Pool
	store  *pgstore.Store
	stream jetstream.Stream

	closers []func(context.Context) error // in the order of opening
}

// openServices starts or connects to everything. After an error nothing is left; otherwise close must be called.
func openServices(ctx context.Context, cfg *Config) (*services, error) {
	s := &services{name: "outbox_demo_" + strings.ToLower(rand.Text()[:8]), database: cfg.Database, to: cfg.To}
	for _, open := range []func(context.Context) error{s.startPostgres, s.startNATS, s.makeSchema, s.makeStream} {
		if err := open(ctx); err != nil {
			return nil, errors.Join(err, s.close(ctx))
		}
	}
	return s, nil
}

// close ends and removes, the last first, also when the context is over.
func (s *services) close(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closePatience)
	defer cancel()
	var errs []error
	for _, end := range slices.Backward(s.closers) {
		errs = append(errs, end(ctx))
	}
	return errors.Join(errs...)
}

func (s *services) onClose(end func(context.Context) error) { s.closers = append(s.closers, end) }

// sql puts the schema's name into a statement.
func (s *services) sql(text string) string {
	return strings.NewReplacer("demo.", s.name+".", "demo cascade", s.name+" cascade").Replace(text)
}

func (s *services) startPostgres(ctx context.Context) error {
	if s.database != "" {
		return nil
	}
	server, err := pgdev.Start(ctx, pgdev.Config{})
	if errors.Is(err, devservices.ErrNotInstalled) {
		return fmt.Errorf("%w; the demo takes one by --database", err)
	}
	if err != nil {
		return err
	}
	s.database = server.URL("postgres")
	s.onClose(func(context.Context) error { return server.Close() })
	return nil
}

func (s *services) startNATS(context.Context) error {
	if s.to != "" {
		return nil
	}
	server, err := natsdev.Start(natsdev.Config{})
	if err != nil {
		return err
	}
	s.to = server.URL()
	s.onClose(func(context.Context) error { return server.Close() })
	return nil
}

func (s *services) makeSchema(ctx context.Context) error {
	cfg, err := pgxpool.ParseConfig(s.database)
	if err != nil {
		return errors.New("--database is no PostgreSQL URL or connection string")
	}
	const watching = 3
	cfg.MaxConns = writers + watching
	if s.pool, err = pgxpool.NewWithConfig(ctx, cfg); err != nil {
		return fmt.Errorf("connect to PostgreSQL: %w", err)
	}
	s.onClose(func(context.Context) error { s.pool.Close(); return nil })
	if err := s.pool.Ping(ctx); err != nil {
		return err // says where
	}
	log := slog.New(slog.NewTextHandler(io.Discard, nil))
	if s.store, err = pgstore.New(s.pool, &pgstore.Config{Schema: s.name, Logger: log}); err != nil {
		return err
	}
	s.onClose(func(context.Context) error { s.store.Close(); return nil })
	s.onClose(func(ctx context.Context) error { return s.exec(ctx, dropSchemaSQL) })
	if err := s.store.Migrate(ctx); err != nil {
		return fmt.Errorf("make the outbox: %w", err)
	}
	return s.exec(ctx, createOrdersSQL)
}

func (s *services) exec(ctx context.Context, sql string) error {
	if _, err := s.pool.Exec(ctx, s.sql(sql)); err != nil {
		return fmt.Errorf("schema %s: %w", s.name, err)
	}
	return nil
}

// duplicateWindow is longer than the relay sends a message again.
const duplicateWindow = 20 * time.Minute

func (s *services) makeStream(ctx context.Context) error {
	conn, err := nats.Connect(s.to, nats.Name("outbox demo"))
	if err != nil {
		return fmt.Errorf("connect to NATS: %w", err)
	}
	s.onClose(func(context.Context) error { conn.Close(); return nil })
	js, err := jetstream.New(conn)
	if err != nil {
		return fmt.Errorf("jetstream: %w", err)
	}
	s.onClose(func(ctx context.Context) error {
		if err := js.DeleteStream(ctx, s.name); err != nil && !errors.Is(err, jetstream.ErrStreamNotFound) {
			return fmt.Errorf("delete stream: %w", err)
		}
		return nil
	})
	s.stream, err = js.CreateStream(ctx, jetstream.StreamConfig{Name: s.name, Subjects: []string{s.name + ".>"}, Duplicates: duplicateWindow})
	if err != nil {
		return fmt.Errorf("create stream: %w", err)
	}
	return nil
}

// arrived counts what the stream holds.
func (s *services) arrived(ctx context.Context) (int64, error) {
	info, err := s.stream.Info(ctx)
	if err != nil {
		return 0, fmt.Errorf("stream: %w", err)
	}
	return int64(info.State.Msgs), nil
}

// held counts the unsettled messages of a relay's process, as the database lists them.
func (s *services) held(ctx context.Context, pid int) (n int64, err error) {
	relays, err := s.store.Relays(ctx)
	for _, r := range relays {
		if r.PID == pid {
			n += r.InFlight
		}
	}
	return n, err
}

// sessions counts the database sessions of that name.
func (s *services) sessions(ctx context.Context, application string) (n int, err error) {
	err = s.pool.QueryRow(ctx, sessionsSQL, application).Scan(&n)
	return n, err
}

// holdSettling keeps relays from settling what is committed so far, until the returned transaction ends.
func (s *services) holdSettling(ctx context.Context) (pgx.Tx, error) {
	tx, err := s.pool.Begin(ctx)
	if err != nil {
		return nil, err
	}
	if _, err := tx.Exec(ctx, s.sql(lockMessagesSQL)); err != nil {
		return nil, errors.Join(err, tx.Rollback(ctx))
	}
	return tx, nil
}

// endSessions ends the database sessions of that name.
func (s *services) endSessions(ctx context.Context, application string) error {
	_, err := s.pool.Exec(ctx, endSessionsSQL, application)
	return err
}
