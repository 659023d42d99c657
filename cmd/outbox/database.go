package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outboxrelay/outbox/pgstore"
)

// connConfig parses the database's URL as it is now.
func (c *config) connConfig() (*pgx.ConnConfig, error) {
	poolConfig, err := c.poolConfig()
	if err != nil {
		return nil, err
	}
	return poolConfig.ConnConfig, nil
}

func (c *config) poolConfig() (*pgxpool.Config, error) {
	if !c.database.isSet() {
		return nil, &failure{exitUsage, errors.New("which database? Set --database-url, OUTBOX_DATABASE_URL, or database.url in the file of --config")}
	}
	if err := c.refuseSQLite(); err != nil {
		return nil, err
	}
	url, err := c.database.read()
	if err != nil {
		return nil, err
	}
	cfg, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, &failure{exitUsage, fmt.Errorf("database.url %q%s: %s", mask(url), c.origin("database.url"), urlProblem(err))}
	}
	completeConn(cfg.ConnConfig)
	cfg.MaxConns = 2 // with heartbeat and listener four, the promise to the database's administrator
	if c.database.file != "" {
		cfg.BeforeConnect = refresh(c.database)
	}
	return cfg, nil
}

// urlProblem is what is wrong with a URL, in words that show nothing of it: the parser's own may hold the password.
func urlProblem(err error) string {
	var file *fs.PathError
	if errors.As(err, &file) {
		return fmt.Sprintf("a file that it names, as sslrootcert, sslcert, sslkey or passfile do, cannot be read: %v", file)
	}
	return "is no PostgreSQL URL or connection string"
}

// connectPatience is how long one attempt to connect may take, unless the URL has a connect_timeout: a server that takes
// the connection and does not answer would be waited for in silence.
const connectPatience = 10 * time.Second

func completeConn(cfg *pgx.ConnConfig) {
	if cfg.ConnectTimeout == 0 {
		cfg.ConnectTimeout = connectPatience
	}
	if cfg.RuntimeParams["application_name"] == "" {
		cfg.RuntimeParams["application_name"] = "outbox"
	}
}

// refresh reads a secret again before each connection: a rotated password is in the file, not in memory.
func refresh(s secret) func(context.Context, *pgx.ConnConfig) error {
	return func(_ context.Context, cfg *pgx.ConnConfig) error {
		url, err := s.read()
		if err != nil {
			return err
		}
		// A pool's own parameters, which pgx.ParseConfig would send to the server, are taken out.
		fresh, err := pgxpool.ParseConfig(url)
		if err != nil {
			return fmt.Errorf("connect: what %s holds is no PostgreSQL URL", s.file)
		}
		completeConn(fresh.ConnConfig)
		*cfg = *fresh.ConnConfig
		return nil
	}
}

// openStore makes the store; nothing connects before it is used.
func (c *config) openStore(ctx context.Context, log *slog.Logger) (store *pgstore.Store, closeAll func(), err error) {
	poolConfig, err := c.poolConfig()
	if err != nil {
		return nil, nil, err
	}
	pool, err := pgxpool.NewWithConfig(ctx, poolConfig)
	if err != nil {
		return nil, nil, fmt.Errorf("make connection pool: %w", err)
	}
	storeConfig := c.store
	storeConfig.Logger = log
	if c.listen.file != "" {
		storeConfig.BeforeListen = refresh(c.listen)
	}
	store, err = pgstore.New(pool, &storeConfig)
	if err != nil {
		pool.Close()
		return nil, nil, err
	}
	return store, func() { store.Close(); pool.Close() }, nil
}

// newLogger writes to stderr, as configured.
func (a *app) newLogger(c *config) *slog.Logger {
	options := &slog.HandlerOptions{Level: c.logLevel}
	if c.logFormat == "json" {
		return slog.New(slog.NewJSONHandler(a.stderr, options))
	}
	return slog.New(slog.NewTextHandler(a.stderr, options))
}
