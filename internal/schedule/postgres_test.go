package schedule

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"pgregory.net/rapid"

	"github.com/outboxrelay/outbox"
	"github.com/outboxrelay/outbox/internal/history"
	"github.com/outboxrelay/outbox/pgstore"
)

// inPostgres is an outbox in a database of its own.
type inPostgres struct {
	url       string
	engines   []pgstore.Engine // of the relays, by turns
	opened    atomic.Int64
	pool      *pgxpool.Pool // the application's
	publisher *pgstore.Publisher
	store     *pgstore.Store // the operator's
}

func newInPostgres(t *testing.T, engines ...pgstore.Engine) *inPostgres {
	t.Helper()
	b := &inPostgres{url: postgres.DatabaseFrom(t, "migrated", migrate), engines: engines}
	var err error
	if b.publisher, err = pgstore.NewPublisher(nil); err != nil {
		t.Fatal(err)
	}
	if b.pool, err = pgxpool.New(t.Context(), b.url); err != nil {
		t.Fatal(err)
	}
	if b.store, err = pgstore.New(b.pool, &pgstore.Config{Logger: slog.New(slog.DiscardHandler)}); err != nil {
		t.Fatal(err)
	}
	return b
}

func (b *inPostgres) close() {
	b.store.Close()
	b.pool.Close()
}

func migrate(ctx context.Context, url string) error {
	cfg, err := pgx.ParseConfig(url)
	if err != nil {
		return err
	}
	m, err := pgstore.NewMigrator(cfg, pgstore.DefaultSchema)
	if err != nil {
		return err
	}
	_, err = m.Up(ctx)
	return err
}

func (b *inPostgres) Open(ctx context.Context) (outbox.Store, func(), error) {
	engine := b.engines[int(b.opened.Add(1))%len(b.engines)]
	store, err := pgstore.Open(ctx, b.url, &pgstore.Config{Engine: engine, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return nil, nil, err
	}
	return store, store.Close, nil
}

func (b *inPostgres) Begin(ctx context.Context) (Tx, error) {
	tx, err := b.pool.Begin(ctx)
	return postgresTx{tx, b.publisher}, err
}

func (b *inPostgres) Left(ctx context.Context) (n int, err error) {
	err = b.pool.QueryRow(ctx, "select (select count(*) from outbox.message) + (select count(*) from outbox.waiting)").Scan(&n)
	return n, err
}

func (b *inPostgres) Operator() outbox.Operator { return b.store }

type postgresTx struct {
	pgx.Tx
	publisher *pgstore.Publisher
}

func (tx postgresTx) Publish(ctx context.Context, ms ...outbox.Message) ([]outbox.Receipt, error) {
	return tx.publisher.Publish(ctx, tx.Tx, ms...)
}

// TestSchedulesInPostgres: whatever the schedule, no promise is broken on PostgreSQL, with either engine and with both.
func TestSchedulesInPostgres(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for leases")
	}
	t.Parallel()
	var all tally
	rapid.Check(t, func(rt *rapid.T) {
		// Three at a time: most of a schedule is waiting, for leases and breakers.
		fleets := [][]pgstore.Engine{{pgstore.EnginePoll}, {pgstore.EngineWAL}, {pgstore.EnginePoll, pgstore.EngineWAL}}
		plans := rapid.SliceOfN(Plans(Limits{Steps: 16}), 3, 3).Draw(rt, "plans")
		reports, errs := make([]history.Report, len(plans)), make([]error, len(plans))
		var wg sync.WaitGroup
		for i, plan := range plans {
			box := newInPostgres(t, fleets[i]...)
			wg.Go(func() {
				defer box.close()
				reports[i], errs[i] = Play(t.Context(), box, plan)
			})
		}
		wg.Wait()
		for i := range plans {
			all.add(reports[i].Counts)
			if err := errors.Join(errs[i], reports[i].Err()); err != nil {
				rt.Errorf("plan %d: %v", i, err)
			}
		}
	})
	all.check(t)
}
