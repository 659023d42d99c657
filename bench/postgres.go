package main

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"maps"
	"os"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outboxrelay/outbox/internal/devservices/pgdev"
	"github.com/outboxrelay/outbox/pgstore"
)

var (
	//go:embed queries/others.sql
	othersSQL string
	//go:embed queries/empty.sql
	emptySQL string
	//go:embed queries/backlog.sql
	backlogSQL string
	//go:embed queries/left.sql
	leftSQL string
	//go:embed queries/account.sql
	accountSQL string
)

// patience bounds waiting for what a healthy server does at once.
const patience = time.Minute

// server is the private PostgreSQL server with one database that holds the outbox.
type server struct {
	pg         *pgdev.Server
	url        string
	conn       *pgx.Conn // for set-up and counters, never while something is measured
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

func startServer(ctx context.Context, more map[string]string) (*server, error) {
	settings := serverSettings()
	maps.Copy(settings, more)
	pg, err := pgdev.Start(ctx, pgdev.Config{Durable: true, Settings: settings})
	if err != nil {
		return nil, err
	}
	s := &server{pg: pg}
	if err := s.open(ctx); err != nil {
		return nil, errors.Join(err, s.close(ctx, ""))
	}
	return s, nil
}

// open makes the database and connects.
func (s *server) open(ctx context.Context) error {
	database, err := s.pg.Cluster().Create(ctx)
	if err != nil {
		return err
	}
	s.url = s.pg.Cluster().URL(database)
	cfg, err := pgx.ParseConfig(s.url)
	if err != nil {
		return err
	}
	m, err := pgstore.NewMigrator(cfg, "")
	if err != nil {
		return err
	}
	if _, err := m.Up(ctx); err != nil {
		return err
	}
	if s.conn, err = pgx.ConnectConfig(ctx, cfg); err != nil {
		return err
	}
	if _, err := s.conn.Exec(ctx, accountSQL); err != nil {
		return fmt.Errorf("make table account: %w", err)
	}
	s.postmaster, err = parentOf(int(s.conn.PgConn().PID()))
	return err
}

func (s *server) close(ctx context.Context, logFile string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	if s.conn != nil {
		_ = s.conn.Close(ctx) // the server ends next
	}
	var err error
	if logFile != "" {
		err = os.WriteFile(logFile, []byte(s.pg.Log()), 0o644)
	}
	return errors.Join(err, s.pg.Close())
}

func (s *server) setting(ctx context.Context, name string) (value string, err error) {
	if err := s.conn.QueryRow(ctx, "select current_setting($1)", name).Scan(&value); err != nil {
		return "", fmt.Errorf("read setting %s: %w", name, err)
	}
	return value, nil
}

// pool connects as an application does, with statements counted by w.
func (s *server) pool(ctx context.Context, conns int32, w *wire) (*pgxpool.Pool, error) {
	cfg, err := pgxpool.ParseConfig(s.url)
	if err != nil {
		return nil, err
	}
	cfg.MaxConns = conns
	cfg.ConnConfig.DialFunc = w.dial
	return pgxpool.NewWithConfig(ctx, cfg)
}

// fill replaces all messages by a backlog of so many, message n with seq n and, if there are keys, key n modulo keys.
// The checkpoint comes first: all pages are then new since it, and what is measured writes no full page images.
func (s *server) fill(ctx context.Context, rows, keys int) error {
	if err := s.empty(ctx); err != nil {
		return err
	}
	if _, err := s.conn.Exec(ctx, backlogSQL, rows, keys); err != nil {
		return fmt.Errorf("fill outbox.message: %w", err)
	}
	return s.exec(ctx, "vacuum (analyze) outbox.message")
}

// empty removes all traces of earlier runs.
func (s *server) empty(ctx context.Context) error {
	if err := s.alone(ctx); err != nil {
		return err
	}
	return errors.Join(s.exec(ctx, emptySQL), s.exec(ctx, "vacuum (analyze)"), s.exec(ctx, "checkpoint"))
}

func (s *server) exec(ctx context.Context, sql string) error {
	if _, err := s.conn.Exec(ctx, sql, pgx.QueryExecModeSimpleProtocol); err != nil {
		return fmt.Errorf("%.40s: %w", sql, err)
	}
	return nil
}

// alone waits until no other client is connected. Backends report their counters at the latest when they end.
func (s *server) alone(ctx context.Context) error {
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

// left counts what is in the outbox: messages in any state, and claims.
func (s *server) left(ctx context.Context) (n int64, err error) {
	err = s.conn.QueryRow(ctx, leftSQL).Scan(&n)
	return n, err
}
