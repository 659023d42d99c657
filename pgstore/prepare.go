package pgstore

import (
	"context"
)

// Migrate creates the schema or brings it up to date. Any number of processes may call it at once.
func (s *Store) Migrate(ctx context.Context) error {
	conn, err := s.pool.Acquire(ctx)
	if err != nil {
		return s.explain("migrate", err)
	}
	defer conn.Release()
	return migrateUp(ctx, conn.Conn(), s.cfg.Schema)
}

// Prepare makes the schema ready for a relay, as Config.Migrate says; see outbox.Preparer.
func (s *Store) Prepare(ctx context.Context) error {
	var err error
	switch s.cfg.Migrate {
	case MigrateAuto:
		err = s.Migrate(ctx)
	case MigrateCheck:
		err = checkSchema(ctx, s.pool, s.cfg.Schema)
	}
	if err == nil {
		s.prepareArchive(ctx)
	}
	return err
}
