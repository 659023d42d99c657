package demo

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/outboxrelay/outbox/internal/devservices/natsdev"
	"github.com/outboxrelay/outbox/internal/devservices/pgdev"
)

// closePatience bounds the end of the services.
const closePatience = 20 * time.Second

// services are the database and the broker, private ones or existing ones, and what the demo makes in them: a schema
// and a stream of its own, both with the same name; in a private SQLite file the usual tables.
type services struct {
	name     string
	database database
	to       string // URL
	stream   jetstream.Stream

	closers []func(context.Context) error // in the order of opening
}

// openServices starts or connects to everything. After an error nothing is left; otherwise close must be called.
func openServices(ctx context.Context, cfg *Config) (*services, error) {
	s := &services{name: "outbox_demo_" + strings.ToLower(rand.Text()[:8]), to: cfg.To}
	openDatabase := func(ctx context.Context) error { return s.openDatabase(ctx, cfg.Database) }
	for _, open := range []func(context.Context) error{openDatabase, s.startNATS, s.makeStream} {
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

// PrivateSQLite as Config.Database is a private SQLite file, also where PostgreSQL is installed.
const PrivateSQLite = "sqlite:"

// openDatabase opens the database of the URL. Without one it is a private PostgreSQL server where PostgreSQL is
// installed, and a SQLite file elsewhere.
func (s *services) openDatabase(ctx context.Context, url string) (err error) {
	if url == PrivateSQLite || url == "" && !pgdev.Installed() {
		s.database, err = openSQLite(ctx, s.onClose)
		return err
	}
	if url == "" {
		server, err := pgdev.Start(ctx, pgdev.Config{})
		if err != nil {
			return err
		}
		url = server.URL("postgres")
		s.onClose(func(context.Context) error { return server.Close() })
	}
	s.database, err = openPostgres(ctx, url, s.name, s.onClose)
	return err
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
	relays, err := s.database.outbox().Relays(ctx)
	for _, r := range relays {
		if r.PID == pid {
			n += r.InFlight
		}
	}
	return n, err
}
