package main

import (
	"context"
	"errors"
	"time"

	"github.com/outboxrelay/outbox/internal/bench"
	"github.com/outboxrelay/outbox/pgstore"
)

// calm is how long after its start a relay with nothing to do polls no more often than configured. A run that is
// shorter, which only tests want, does not wait longer.
const calm = 3 * time.Second

func idleScenario() bench.Scenario {
	idle := func(notify pgstore.NotifyMode) runFunc {
		return func(ctx context.Context, b *bench.Bed) (bench.Sample, error) { return beIdle(ctx, b, notify) }
	}
	return bench.Scenario{
		Name: "idle", Rate: "statements/s", Rounds: 1,
		About: "one relay with nothing to do, from 3 s after its start; percentages are of one core",
		Cases: []bench.Case{
			{Name: "notifications on", Run: idle(pgstore.NotifyPublish)},
			{Name: "notifications off", Run: idle(pgstore.NotifyOff)},
		},
	}
}

func beIdle(ctx context.Context, b *bench.Bed, notify pgstore.NotifyMode) (bench.Sample, error) {
	if err := b.Empty(ctx); err != nil {
		return bench.Sample{}, err
	}
	t, w := bench.NewTally(0, 0), &bench.Wire{}
	route := bench.NewTimes(0).Route(nil, t)
	f, err := bench.StartFleet(ctx, b.Stores, bench.FleetConfig{Relays: 1, Route: route, Notify: notify, Tally: t, Wire: w})
	if err != nil {
		return bench.Sample{}, err
	}
	u, err := watchIdle(ctx, b, f, w)
	if err != nil {
		return bench.Sample{}, err
	}
	left, err := b.Left(ctx, 0)
	return bench.Sample{Rate: u.StatementsPerSecond(), More: u.IdleFigures(), Faults: t.Faults(left, bench.Unknown)}, err
}

// watchIdle stops the relay in any case.
func watchIdle(ctx context.Context, b *bench.Bed, f *bench.Fleet, w *bench.Wire) (bench.Usage, error) {
	var ends closers
	ends.add(f.Stop)
	err := f.Ready(ctx)
	if err == nil {
		err = bench.Pause(ctx, min(calm, b.IdleFor))
	}
	var m *bench.Meter
	if err == nil {
		m, err = b.StartMeter(ctx, w)
	}
	if err != nil {
		return bench.Usage{}, errors.Join(err, ends.close())
	}
	err = bench.Pause(ctx, b.IdleFor)
	u, errFinish := m.Finish(ctx, ends.close)
	return u, errors.Join(err, errFinish)
}
