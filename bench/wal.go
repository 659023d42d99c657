package main

import (
	"context"
	"errors"

	"github.com/outboxrelay/outbox/internal/bench"
	"github.com/outboxrelay/outbox/pgstore"
)

// arrival is how messages arrive that are published while somebody waits for them.
type arrival struct {
	stores func(*bench.Bed) bench.Stores // nil: the bare decoding loop
	stream bool
	notify pgstore.NotifyMode
}

// burstEach is how many messages a transaction of a burst has.
const burstEach = 200

func walScenario() bench.Scenario {
	poll := func(b *bench.Bed) bench.Stores { return b.Stores }
	stream := func(b *bench.Bed) bench.Stores { return b.StreamStores }
	const bare = "bare decoding loop"
	sc := bench.Scenario{
		Name: "wal", Rate: "msg/s",
		About: "the engines beside a loop that decodes insertions and deletes the rows: one connection commits 200 messages in each transaction as fast as it can (burst), or single ones at a fixed rate (rate)",
	}
	for _, c := range []struct {
		name string
		arrival
	}{
		{bare, arrival{notify: pgstore.NotifyOff}},
		{"wal", arrival{stream, true, pgstore.NotifyOff}},
		{"poll, notifications on", arrival{poll, false, pgstore.NotifyPublish}},
		{"poll, notifications off", arrival{poll, false, pgstore.NotifyOff}},
	} {
		for _, k := range []struct {
			name string
			keys int
		}{{"burst", 0}, {"burst, 1000 keys", 1000}} {
			sc.Cases = append(sc.Cases, bench.Case{Name: c.name + ", " + k.name, Compare: bench.Of("of bare", bare+", "+k.name),
				Run: func(ctx context.Context, b *bench.Bed) (bench.Sample, error) { return c.burst(ctx, b, k.keys) }})
		}
		sc.Cases = append(sc.Cases, bench.Case{Name: c.name + ", rate",
			Run: func(ctx context.Context, b *bench.Bed) (bench.Sample, error) { return c.rate(ctx, b) }})
	}
	return sc
}

// start starts what receives; ends gets what ends it.
func (a arrival) start(ctx context.Context, b *bench.Bed, t *bench.Tally, ts *bench.Times, w *bench.Wire, ends *closers) (bench.Receiver, error) {
	if a.stores == nil {
		l, err := b.StartDecodeLoop(ctx, w, func(number int64) { ts.Handled(number); t.Deliver(number) }, t.Settle)
		if err == nil {
			ends.add(l.Stop)
		}
		return l, err
	}
	f, err := bench.StartFleet(ctx, a.stores(b), bench.FleetConfig{Relays: 1, Route: ts.Route(nil, t), Notify: a.notify, Tally: t, Wire: w})
	if err != nil {
		return nil, err
	}
	ends.add(f.Stop)
	if a.stream {
		err = b.AwaitStream(ctx)
	}
	return f, err
}

func (a arrival) burst(ctx context.Context, b *bench.Bed, keys int) (bench.Sample, error) {
	return a.measure(ctx, b, b.Rows, keys, func(r bench.Receiver, t *bench.Tally, _ *bench.Times, w *bench.Wire, ends *closers) error {
		pool, err := b.Pool(ctx, 1, w)
		if err != nil {
			return err
		}
		ends.add(func() error { pool.Close(); return nil })
		return b.Burst(ctx, pool, r, b.Rows, keys, burstEach, t)
	})
}

func (a arrival) rate(ctx context.Context, b *bench.Bed) (bench.Sample, error) {
	n := int(b.LatencyFor.Seconds() * float64(b.MessageRate))
	var figures []bench.Figure
	s, err := a.measure(ctx, b, n, 0, func(r bench.Receiver, t *bench.Tally, ts *bench.Times, w *bench.Wire, ends *closers) error {
		store, closeStore, err := b.OpenStore(ctx, &bench.Wire{}, pgstore.Config{Notify: a.notify})
		if err != nil {
			return err
		}
		ends.add(func() error { closeStore(); return nil })
		pool, err := b.Pool(ctx, bench.Writers, w)
		if err != nil {
			return err
		}
		ends.add(func() error { pool.Close(); return nil })
		_, err = b.Writing(pool, bench.Via(store)).AtRate(ctx, r, b.MessageRate, t, ts, b.Stall)
		figures = ts.Figures(b.MessageRate)
		return err
	})
	s.More = append(figures, s.More...)
	return s, err
}

// measure publishes to what receives, which waits already.
func (a arrival) measure(ctx context.Context, b *bench.Bed, n, keys int,
	publish func(bench.Receiver, *bench.Tally, *bench.Times, *bench.Wire, *closers) error) (bench.Sample, error) {
	if err := b.Empty(ctx); err != nil {
		return bench.Sample{}, err
	}
	t, ts, w := bench.NewTally(n, keys), bench.NewTimes(n), &bench.Wire{}
	var ends closers
	u, err := func() (u bench.Usage, err error) {
		r, err := a.start(ctx, b, t, ts, w, &ends)
		if err != nil {
			return u, err
		}
		m, err := b.StartMeter(ctx, w)
		if err != nil {
			return u, err
		}
		err = publish(r, t, ts, w, &ends)
		u, errFinish := m.Finish(ctx, ends.close)
		return u, errors.Join(err, errFinish)
	}()
	if err := errors.Join(err, ends.close()); err != nil {
		return bench.Sample{}, err
	}
	left, err := b.Left(ctx, 0)
	return bench.Sample{Rate: float64(n) / u.Took.Seconds(), More: u.Figures(n), Faults: t.Faults(left, bench.Unknown)}, err
}
