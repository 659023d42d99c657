package bench

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"maps"
	"os"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outboxrelay/outbox/internal/devservices/pgdev"
	"github.com/outboxrelay/outbox/pgstore"
)

var (
	//go:embed queries/others.sql
	othersSQL string
	//go:embed queries/account.sql
	accountSQL string
)

// patience bounds waiting for what a healthy server does at once.
const patience = time.Minute

// Server is a private PostgreSQL server with one database that holds the outbox.
type Server struct {
	*Database
	pg         *pgdev.Server
	postmaster int
}

// serverSettings make runs comparable: no checkpoint and no vacuum begins within a run unless it is asked for.
func serverSettings() map[string]string {
	return map[string]string{
		"shared_buffers":     "512MB",
		"wal_level":          "logical",
		"max_wal_size":       "8GB",
		"min_wal_size":       "2GB",
		"checkpoint_timeout": "1h",
		"autovacuum":         "off",
		"track_functions":    "pl",
	}
}

func startServer(ctx context.Context, more map[string]string) (*Server, error) {
	settings := serverSettings()
	maps.Copy(settings, more)
	pg, err := pgdev.Start(ctx, pgdev.Config{Durable: true, Settings: settings})
	if err != nil {
		return nil, err
	}
	s := &Server{pg: pg}
	if err := s.open(ctx); err != nil {
		return nil, errors.Join(err, s.close(ctx, ""))
	}
	return s, nil
}

// open makes the database and connects.
func (s *Server) open(ctx context.Context) error {
	database, err := s.pg.Cluster().Create(ctx)
	if err != nil {
		return err
	}
	cfg, err := pgxpool.ParseConfig(s.pg.Cluster().URL(database))
	if err != nil {
		return err
	}
	m, err := pgstore.NewMigrator(cfg.ConnConfig, pgstore.DefaultSchema)
	if err != nil {
		return err
	}
	if _, err := m.Up(ctx); err != nil {
		return err
	}
	if s.Database, err = Connect(ctx, cfg, pgstore.DefaultSchema); err != nil {
		return err
	}
	if err := s.MakeAccounts(ctx); err != nil {
		return err
	}
	s.postmaster, err = parentOf(int(s.conn.PgConn().PID()))
	return err
}

func (s *Server) close(ctx context.Context, logFile string) error {
	if s.Database != nil {
		_ = s.Close(ctx) // the server ends next
	}
	var err error
	if logFile != "" {
		err = os.WriteFile(logFile, []byte(s.pg.Log()), 0o644)
	}
	return errors.Join(err, s.pg.Close())
}

// URL is that of the database.
func (s *Server) URL() string { return s.config.ConnString() }

func (s *Server) setting(ctx context.Context, name string) (value string, err error) {
	if err := s.conn.QueryRow(ctx, "select current_setting($1)", name).Scan(&value); err != nil {
		return "", fmt.Errorf("read setting %s: %w", name, err)
	}
	return value, nil
}

// Refill replaces all messages by a backlog. The checkpoint comes first: all pages are then new since it, and what is
// measured writes no full page images.
func (s *Server) Refill(ctx context.Context, l Backlog) error {
	if err := s.Empty(ctx); err != nil {
		return err
	}
	return s.Fill(ctx, l)
}

// Empty removes all traces of earlier runs from the outbox.
func (s *Server) Empty(ctx context.Context) error {
	if err := s.Alone(ctx); err != nil {
		return err
	}
	return errors.Join(s.Truncate(ctx), s.Exec(ctx, "vacuum (analyze)"), s.Exec(ctx, "checkpoint"))
}

// Alone waits until no other client is connected. Backends report their counters at the latest when they end.
func (s *Server) Alone(ctx context.Context) error {
	for deadline := time.Now().Add(patience); ; {
		var others int
		if err := s.conn.QueryRow(ctx, othersSQL).Scan(&others); err != nil {
			return fmt.Errorf("count clients: %w", err)
		}
		if others == 0 {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%d clients still connected after %v", others, patience)
		}
		time.Sleep(5 * time.Millisecond)
	}
}
