package main

import (
	"context"
	"errors"

	"github.com/outboxrelay/outbox/internal/bench"
	"github.com/outboxrelay/outbox/pgstore"
)

// publishRun is a way to publish and how long its transactions are.
type publishRun struct {
	open   func(ctx context.Context, b *bench.Bed, notify pgstore.NotifyMode) (bench.PublishFunc, func(), error)
	notify pgstore.NotifyMode
	mixed  bool
}

func publishScenario() bench.Scenario {
	const bare = "bare INSERT"
	sc := bench.Scenario{
		Name: "publish", Rate: "tx/s",
		About: "8 writers, a row update and one message per transaction, beside a bare INSERT of the same row; mixed: one transaction in ten is open 10 ms longer, one in a hundred 100 ms",
	}
	for _, c := range []struct {
		name string
		run  publishRun
	}{
		{bare, publishRun{openBare, pgstore.NotifyOff, false}},
		{"store, notifications on", publishRun{openStore, pgstore.NotifyPublish, false}},
		{"store, notifications off", publishRun{openStore, pgstore.NotifyOff, false}},
		{"publisher, notifications on", publishRun{openPublisher, pgstore.NotifyPublish, false}},
		{"publisher, notifications off", publishRun{openPublisher, pgstore.NotifyOff, false}},
	} {
		for _, mixed := range []string{"", ", mixed"} {
			run := c.run
			run.mixed = mixed != ""
			one := bench.Case{Name: c.name + mixed, Run: run.do}
			if c.name != bare {
				one.Compare = bench.Of("of bare", bare+mixed)
			}
			sc.Cases = append(sc.Cases, one)
		}
	}
	return sc
}

func openBare(_ context.Context, b *bench.Bed, _ pgstore.NotifyMode) (bench.PublishFunc, func(), error) {
	return b.Insert(), func() {}, nil
}

// openStore has connections of its own, on which it can notify between transactions.
func openStore(ctx context.Context, b *bench.Bed, notify pgstore.NotifyMode) (bench.PublishFunc, func(), error) {
	store, end, err := b.OpenStore(ctx, &bench.Wire{}, pgstore.Config{Notify: notify})
	return bench.Via(store), end, err
}

func openPublisher(_ context.Context, _ *bench.Bed, notify pgstore.NotifyMode) (bench.PublishFunc, func(), error) {
	p, err := pgstore.NewPublisher(&pgstore.PublishConfig{Notify: notify})
	return bench.Via(p), func() {}, err
}

// do lets the writers commit as much as they can. What is lost is what committed and is not there.
func (run publishRun) do(ctx context.Context, b *bench.Bed) (bench.Sample, error) {
	if err := b.Empty(ctx); err != nil {
		return bench.Sample{}, err
	}
	var ends closers
	n, u, err := run.measure(ctx, b, &ends)
	if err := errors.Join(err, ends.close()); err != nil {
		return bench.Sample{}, err
	}
	left, err := b.Left(ctx, int64(n))
	return bench.Sample{Rate: float64(n) / u.Took.Seconds(), More: u.Figures(n), Faults: bench.Missing(left)}, err
}

// measure counts what was committed; ends gets what ends whatever it starts.
func (run publishRun) measure(ctx context.Context, b *bench.Bed, ends *closers) (n int, u bench.Usage, err error) {
	how, end, err := run.open(ctx, b, run.notify)
	if err != nil {
		return 0, u, err
	}
	ends.add(func() error { end(); return nil })
	l, err := listen(ctx, b.URL(), run.notify)
	if err != nil {
		return 0, u, err
	}
	ends.add(l.stop)
	w := &bench.Wire{}
	pool, err := b.Pool(ctx, bench.Writers, w)
	if err != nil {
		return 0, u, err
	}
	ends.add(func() error { pool.Close(); return nil })
	m, err := b.StartMeter(ctx, w)
	if err != nil {
		return 0, u, err
	}
	writing := b.Writing(pool, how)
	writing.Mixed = run.mixed
	n, err = writing.For(ctx, b.PublishFor)
	u, errFinish := m.Finish(ctx, ends.close)
	return n, u, errors.Join(err, errFinish)
}
