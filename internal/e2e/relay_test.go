package e2e

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outboxrelay/outbox"
	"github.com/outboxrelay/outbox/internal/crashtest"
	"github.com/outboxrelay/outbox/internal/history"
	"github.com/outboxrelay/outbox/internal/history/record"
	"github.com/outboxrelay/outbox/pgstore"
)

// relay runs one relay until it is told to stop.
func relay(ctx context.Context, c *crashtest.Child) error {
	p, err := readPlan()
	if err != nil {
		return err
	}
	pool, err := pgxpool.New(context.WithoutCancel(ctx), p.URL)
	if err != nil {
		return err
	}
	defer pool.Close()
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	cfg := &pgstore.Config{Logger: log, Engine: p.Engine, ListenURL: p.ListenURL, KeepDelivered: p.Keep}
	if p.Quiet {
		cfg.Notify = pgstore.NotifyOff
	}
	if p.AsyncSettle {
		cfg.SettleSync = pgstore.SettleSyncOff
	}
	store, err := pgstore.New(pool, cfg)
	if err != nil {
		return err
	}
	defer store.Close()
	var id atomic.Pointer[outbox.ID]
	r, err := outbox.NewRelay(record.NewStore(store, c.Log),
		routes(p, c.Log),
		&outbox.Config{
			MaxAttempts: p.MaxAttempts, Lease: p.Lease, Logger: log, Order: policies[p.Order].relay,
			Retry: outbox.RetryPolicy{Base: 50 * time.Millisecond, Max: time.Second},
			Rules: []outbox.Rule{{Topics: []string{unordered}, Order: outbox.OrderNone}},
			Hooks: outbox.Hooks{Event: func(_ context.Context, e outbox.Event) {
				if e.Kind == outbox.EventBeat {
					id.Store(&e.Relay)
				}
			}},
		})
	if err != nil {
		return err
	}
	go func() {
		<-r.Ready()
		_ = c.Announce("ready")
	}()
	if err := r.Run(ctx); err != nil {
		return err
	}
	return c.Log.Append(history.Event{Kind: history.RelayStopped, Relay: id.Load().String()})
}

// unordered is the topic whose keys are only passed on.
const unordered = "e2e.free"

func routes(p plan, log *history.Log) []outbox.Route {
	take := p.Take
	if take == nil {
		take = []string{">"}
	}
	rs := []outbox.Route{{Name: "lane", Topics: take, Sink: record.NewSink(handler(p), "lane", log), Slots: p.Slots, BatchBytes: p.BatchBytes}}
	if p.Second != nil {
		rs = append(rs, outbox.Route{Name: "second", Topics: p.Second, Sink: record.NewSink(handler(p), "second", log), Slots: p.Slots})
	}
	return rs
}

// handler takes its time, fails the first attempt of every so many-th message, and others for good. Beside a message
// that kills the process, a second attempt of any other is fatal to it.
func handler(p plan) outbox.Sink {
	return outbox.SinkFunc(func(ctx context.Context, d *outbox.Delivery) error {
		if p.Poison != 0 && d.Seq == p.Poison {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			<-ctx.Done()
		} else if p.Poison != 0 && d.Attempt > 1 {
			return outbox.Permanent(fmt.Errorf("attempt %d of a message that never failed", d.Attempt))
		}
		if p.Work > 0 {
			time.Sleep(p.Work)
		}
		if p.DoomEvery > 0 && d.Seq%int64(p.DoomEvery) == 0 && policies[p.Order].dooms(d) {
			return outbox.Permanent(errors.New("planned to fail for good"))
		}
		if p.FailEvery > 0 && d.Attempt == 1 && d.Seq%int64(p.FailEvery) == 0 {
			return errors.New("planned failure")
		}
		return nil
	})
}
