package main

import (
	"context"
	"errors"

	"github.com/outboxrelay/outbox"
	"github.com/outboxrelay/outbox/internal/bench"
	"github.com/outboxrelay/outbox/pgstore"
)

// latencyRun is a rate of messages and where they go.
type latencyRun struct {
	notify pgstore.NotifyMode
	to     outbox.Sink // nil: a handler that does nothing
	hold   bench.HoldFunc
	hops   bool // all have one key, and two relays hand it to each other
}

// Hops are fewer, since each waits for the one before.
const hopsPerSecond = 100

func (run latencyRun) rate(b *bench.Bed) int {
	if run.hops {
		return hopsPerSecond
	}
	return b.MessageRate
}

func latencyScenario() bench.Scenario {
	handler := func(notify pgstore.NotifyMode, hold bench.HoldFunc) runFunc {
		return func(ctx context.Context, b *bench.Bed) (bench.Sample, error) {
			return latency(ctx, b, latencyRun{notify: notify, hold: hold})
		}
	}
	stream := func(notify pgstore.NotifyMode, hold bench.HoldFunc) runFunc {
		return bench.JetStream().With(func(ctx context.Context, b *bench.Bed, to bench.Target) (bench.Sample, error) {
			return latency(ctx, b, latencyRun{notify: notify, to: to.Sink(), hold: hold})
		})
	}
	return bench.Scenario{
		Name: "latency", Rate: "msg/s", Rounds: 1,
		About: "commit → handler, or acknowledgement of a stream, at a fixed rate that does not wait for anything; \"due\" counts from when the message was due to be published; one key goes from one relay to the other at 100 messages a second",
		Cases: []bench.Case{
			{Name: "handler, notifications on", Run: handler(pgstore.NotifyPublish, nil)},
			{Name: "handler, notifications off", Run: handler(pgstore.NotifyOff, nil)},
			{Name: "JetStream, notifications on", Run: stream(pgstore.NotifyPublish, nil)},
			{Name: "JetStream, notifications off", Run: stream(pgstore.NotifyOff, nil)},
			{Name: "JetStream, on, a writer is open", Run: stream(pgstore.NotifyPublish, bench.HoldWriter)},
			{Name: "handler, one key, two relays", Run: func(ctx context.Context, b *bench.Bed) (bench.Sample, error) {
				return latency(ctx, b, latencyRun{notify: pgstore.NotifyPublish, hops: true})
			}},
		},
	}
}

func latency(ctx context.Context, b *bench.Bed, run latencyRun) (bench.Sample, error) {
	n := int(b.LatencyFor.Seconds() * float64(run.rate(b)))
	if err := b.Empty(ctx); err != nil {
		return bench.Sample{}, err
	}
	keys := 0
	if run.hops {
		keys = 1
	}
	t, ts, w := bench.NewTally(n, keys), bench.NewTimes(n), &bench.Wire{}
	var ends closers
	u, err := func() (u bench.Usage, err error) {
		writing, f, err := startLatency(ctx, b, run, t, ts, w, &ends)
		if err != nil {
			return u, err
		}
		m, err := b.StartMeter(ctx, w)
		if err != nil {
			return u, err
		}
		_, err = writing.AtRate(ctx, f, run.rate(b), t, ts, b.Stall)
		u, errFinish := m.Finish(ctx, ends.close)
		return u, errors.Join(err, errFinish)
	}()
	if err := errors.Join(err, ends.close()); err != nil {
		return bench.Sample{}, err
	}
	left, err := b.Left(ctx, 0)
	more := append(ts.Figures(run.rate(b)), u.Figures(n)...)
	return bench.Sample{Rate: float64(n) / u.Took.Seconds(), More: more, Faults: t.Faults(left, bench.Unknown)}, err
}

// startLatency starts what publishes, delivers and stands in the way; ends gets what ends it.
func startLatency(ctx context.Context, b *bench.Bed, run latencyRun, t *bench.Tally, ts *bench.Times, w *bench.Wire, ends *closers) (bench.Writing, *bench.Fleet, error) {
	if run.hold != nil {
		release, err := run.hold(ctx, b)
		if err != nil {
			return bench.Writing{}, nil, err
		}
		ends.add(release)
	}
	store, closeStore, err := b.OpenStore(ctx, &bench.Wire{}, pgstore.Config{Notify: run.notify})
	if err != nil {
		return bench.Writing{}, nil, err
	}
	ends.add(func() error { closeStore(); return nil })
	publish, relays := bench.Via(store), 1
	if run.hops {
		publish, relays = bench.ViaKey(store, "k"), 2
	}
	pool, err := b.Pool(ctx, bench.Writers, w)
	if err != nil {
		return bench.Writing{}, nil, err
	}
	ends.add(func() error { pool.Close(); return nil })
	f, err := bench.StartFleet(ctx, b.Stores, bench.FleetConfig{Relays: relays, Route: ts.Route(run.to, t), Notify: run.notify, Tally: t, Wire: w})
	if err != nil {
		return bench.Writing{}, nil, err
	}
	ends.add(f.Stop)
	writing := b.Writing(pool, publish)
	writing.InOrder = run.hops
	return writing, f, nil
}
