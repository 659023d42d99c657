package bench

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/outboxrelay/outbox"
	"github.com/outboxrelay/outbox/pgstore"
)

// Stores opens a store of its own for each relay.
type Stores func(ctx context.Context, w *Wire, notify pgstore.NotifyMode) (outbox.Store, func(), error)

// Stores opens stores on this database that find messages by polling.
func (db *Database) Stores(ctx context.Context, w *Wire, notify pgstore.NotifyMode) (outbox.Store, func(), error) {
	return asStore(db.OpenStore(ctx, w, pgstore.Config{Notify: notify}))
}

func asStore(s *pgstore.Store, end func(), err error) (outbox.Store, func(), error) {
	return s, end, err
}

// FleetConfig says what runs: how many relays, and what each of them is given.
type FleetConfig struct {
	Relays int
	Route  outbox.Route
	Notify pgstore.NotifyMode
	Tally  *Tally
	Wire   *Wire
	Hooks  outbox.Hooks // beside the tally's
}

// Fleet is a number of relays in this process, each with a store and a pool of its own.
type Fleet struct {
	relays []*outbox.Relay
	ends   []func()
	failed chan error
	cancel context.CancelFunc
	ended  sync.WaitGroup
}

// storeConns is what pgstore.Open gives a store.
const storeConns = 2

// StartFleet starts the relays; Stop ends them.
func StartFleet(ctx context.Context, stores Stores, cfg FleetConfig) (*Fleet, error) {
	f := &Fleet{failed: make(chan error, cfg.Relays)}
	for range cfg.Relays {
		if err := f.add(ctx, stores, cfg); err != nil {
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

func (f *Fleet) add(ctx context.Context, stores Stores, cfg FleetConfig) error {
	store, end, err := stores(ctx, cfg.Wire, cfg.Notify)
	if err != nil {
		return err
	}
	f.ends = append(f.ends, end)
	relay, err := outbox.NewRelay(store, []outbox.Route{cfg.Route}, &outbox.Config{Logger: warnings(), Hooks: outbox.JoinHooks(cfg.Tally.Hooks(), cfg.Hooks)})
	if err != nil {
		return err
	}
	f.relays = append(f.relays, relay)
	return nil
}

// warnings logs what must not happen during a run.
func warnings() *slog.Logger {
	return slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
}

// Failed tells of a relay that ended early.
func (f *Fleet) Failed() <-chan error { return f.failed }

// Ready waits until every relay has made its first claim.
func (f *Fleet) Ready(ctx context.Context) error {
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

// Stop ends all relays and disconnects.
func (f *Fleet) Stop() error {
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

func (f *Fleet) close() {
	for _, end := range f.ends {
		end()
	}
}
