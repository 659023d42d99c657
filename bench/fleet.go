package main

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outboxrelay/outbox"
	"github.com/outboxrelay/outbox/pgstore"
)

// fleetConfig says what runs: how many relays, and what each of them is given.
type fleetConfig struct {
	relays int
	route  outbox.Route
	notify pgstore.NotifyMode
	tally  *tally
	wire   *wire
}

// fleet is a number of relays in this process, each with a store and a pool of its own.
type fleet struct {
	relays []*outbox.Relay
	stores []*pgstore.Store
	pools  []*pgxpool.Pool
	failed chan error
	cancel context.CancelFunc
	ended  sync.WaitGroup
}

// storeConns is what pgstore.Open gives a store.
const storeConns = 2

// startFleet starts the relays; stop ends them.
func (s *server) startFleet(ctx context.Context, cfg fleetConfig) (*fleet, error) {
	f := &fleet{failed: make(chan error, cfg.relays)}
	for range cfg.relays {
		if err := f.add(ctx, s, cfg); err != nil {
			f.close()
			return nil, err
		}
	}
	ctx, f.cancel = context.WithCancel(ctx)
	for _, r := range f.relays {
		f.ended.Go(func() {
			if err := r.Run(ctx); err != nil {
				f.failed <- err
			}
		})
	}
	return f, nil
}

func (f *fleet) add(ctx context.Context, s *server, cfg fleetConfig) error {
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	pool, err := s.pool(ctx, storeConns, cfg.wire)
	if err != nil {
		return err
	}
	f.pools = append(f.pools, pool)
	store, err := pgstore.New(pool, &pgstore.Config{Notify: cfg.notify, Migrate: pgstore.MigrateOff, Logger: log})
	if err != nil {
		return err
	}
	f.stores = append(f.stores, store)
	relay, err := outbox.NewRelay(store, []outbox.Route{cfg.route}, &outbox.Config{Logger: log, Hooks: cfg.tally.hooks()})
	if err != nil {
		return err
	}
	f.relays = append(f.relays, relay)
	return nil
}

// ready waits until every relay has made its first claim.
func (f *fleet) ready(ctx context.Context) error {
	for _, r := range f.relays {
		select {
		case <-r.Ready():
		case err := <-f.failed:
			return err
		case <-time.After(patience):
			return errors.New("a relay is not ready in time")
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// stop ends all relays and disconnects.
func (f *fleet) stop() error {
	f.cancel()
	f.ended.Wait()
	f.close()
	select {
	case err := <-f.failed:
		return err
	default:
		return nil
	}
}

func (f *fleet) close() {
	for _, s := range f.stores {
		s.Close()
	}
	for _, p := range f.pools {
		p.Close()
	}
}
