package pgdev

import (
	"context"
	"errors"
	"fmt"

	"github.com/outboxrelay/outbox/internal/devservices"
)

// Standby starts another server on a copy of this one. It follows by streaming replication and is read-only until
// Promote. Commits of this server wait for it once synchronous_standby_names says so.
func (s *Server) Standby(ctx context.Context) (*Server, error) {
	if err := s.mayCopy(); err != nil {
		return nil, fmt.Errorf("start standby: %w", err)
	}
	account, err := devservices.ServiceAccount("postgres", "nobody")
	if err != nil {
		return nil, fmt.Errorf("start standby: %w", err)
	}
	sup, err := devservices.Supervise("postgres", account, finishScript(s.bin))
	if err != nil {
		return nil, fmt.Errorf("start standby: %w", err)
	}
	c := &Server{bin: s.bin, cfg: s.cfg, sup: sup}
	err = sup.Run(ctx, s.backupCommand("data", "-R")...)
	if err == nil {
		err = c.listen(ctx, s.cfg, devservices.FreePort)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("start standby: %w", err), sup.Close())
	}
	c.cluster = &Cluster{url: c.URL("postgres")}
	return c, nil
}

// Promote makes a standby a server of its own, which takes writes when this returns.
func (s *Server) Promote(ctx context.Context) error {
	return s.sup.Run(ctx, s.program("pg_ctl"), "promote", "-D", "data", "-w", "-t", "60", "-s")
}

// Backup copies the running server, under a name that Restore knows it by.
func (s *Server) Backup(ctx context.Context, name string) error {
	if err := s.mayCopy(); err != nil {
		return fmt.Errorf("back up postgres: %w", err)
	}
	if err := s.sup.Run(ctx, s.backupCommand("backup-"+name)...); err != nil {
		return fmt.Errorf("back up postgres: %w", err)
	}
	return nil
}

// Restore puts the backup in the place of a stopped server's data. What was written after it is gone.
func (s *Server) Restore(ctx context.Context, name string) error {
	for _, words := range [][]string{{"rm", "-rf", "data"}, {"cp", "-a", "backup-" + name, "data"}} {
		if err := s.sup.Run(ctx, words...); err != nil {
			return fmt.Errorf("restore postgres: %w", err)
		}
	}
	return nil
}

// mayCopy is an error where the server came without pg_basebackup, which not every package of a server has.
func (s *Server) mayCopy() error {
	if !executable(s.program("pg_basebackup")) {
		return fmt.Errorf("pg_basebackup %w in %s: use a server's package that has it", devservices.ErrNotInstalled, s.bin)
	}
	return nil
}

// backupCommand copies this server into a folder of whoever runs it.
func (s *Server) backupCommand(dir string, more ...string) []string {
	conn := fmt.Sprintf("host=127.0.0.1 port=%d user=postgres application_name=standby", s.port)
	return append([]string{s.program("pg_basebackup"), "-D", dir, "-d", conn, "-c", "fast", "-X", "stream", "--no-sync"}, more...)
}
