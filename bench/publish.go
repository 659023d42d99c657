package main

import (
	"context"
	"errors"

	"github.com/outboxrelay/outbox/internal/bench"
	"github.com/outboxrelay/outbox/pgstore"
)

func publishScenario() bench.Scenario {
	const bare, bareMixed, held = "bare INSERT", "bare INSERT, mixed", ", mixed"
	sc := bench.Scenario{
		Name: "publish", Rate: "tx/s",
		About: "8 writers, a row update and one message per transaction, beside a bare INSERT of the same row; mixed: one transaction in ten is open 10 ms longer, one in a hundred 100 ms",
		Cases: []bench.Case{{Name: bare, Run: publishBare(false)}, {Name: bareMixed, Run: publishBare(true)}},
	}
	for _, c := range []struct {
		name   string
		notify pgstore.NotifyMode
		open   func(ctx context.Context, b *bench.Bed, notify pgstore.NotifyMode) (bench.Publisher, func(), error)
	}{
		{"store, notifications on", pgstore.NotifyPublish, openStore},
		{"store, notifications off", pgstore.NotifyOff, openStore},
		{"publisher, notifications on", pgstore.NotifyPublish, openPublisher},
		{"publisher, notifications off", pgstore.NotifyOff, openPublisher},
	} {
		for _, mixed := range []bool{false, true} {
			one := bench.Case{Name: c.name, Compare: bench.Of("of bare", bare), Run: func(ctx context.Context, b *bench.Bed) (_ bench.Sample, err error) {
				if err := b.Empty(ctx); err != nil {
					return bench.Sample{}, err
				}
				p, end, err := c.open(ctx, b, c.notify)
				if err != nil {
					return bench.Sample{}, err
				}
				l, err := listen(ctx, b.URL(), c.notify)
				if err != nil {
					end()
					return bench.Sample{}, err
				}
				stop := func() error { end(); return l.stop() }
				return publish(ctx, b, bench.Via(p), mixed, stop)
			}}
			if mixed {
				one.Name, one.Compare = one.Name+held, bench.Of("of bare", bareMixed)
			}
			sc.Cases = append(sc.Cases, one)
		}
	}
	return sc
}

func publishBare(mixed bool) runFunc {
	return func(ctx context.Context, b *bench.Bed) (bench.Sample, error) {
		if err := b.Empty(ctx); err != nil {
			return bench.Sample{}, err
		}
		return publish(ctx, b, b.Insert(), mixed, func() error { return nil })
	}
}

// openStore has connections of its own, on which it can notify between transactions.
func openStore(ctx context.Context, b *bench.Bed, notify pgstore.NotifyMode) (bench.Publisher, func(), error) {
	return b.OpenStore(ctx, &bench.Wire{}, pgstore.Config{Notify: notify})
}

func openPublisher(_ context.Context, _ *bench.Bed, notify pgstore.NotifyMode) (bench.Publisher, func(), error) {
	p, err := pgstore.NewPublisher(&pgstore.PublishConfig{Notify: notify})
	return p, func() {}, err
}

// publish lets the writers commit as much as they can. What is lost is what committed and is not there.
func publish(ctx context.Context, b *bench.Bed, how bench.PublishFunc, mixed bool, stop func() error) (bench.Sample, error) {
	w := &bench.Wire{}
	pool, err := b.Pool(ctx, bench.Writers, w)
	if err != nil {
		return bench.Sample{}, errors.Join(err, stop())
	}
	end := func() error { pool.Close(); return stop() }
	m, err := b.StartMeter(ctx, w)
	if err != nil {
		return bench.Sample{}, errors.Join(err, end())
	}
	writing := b.Writing(pool, how)
	writing.Mixed = mixed
	n, err := writing.For(ctx, b.PublishFor)
	u, errFinish := m.Finish(ctx, end)
	if err := errors.Join(err, errFinish); err != nil {
		return bench.Sample{}, err
	}
	left, err := b.Left(ctx, int64(n))
	return bench.Sample{Rate: float64(n) / u.Took.Seconds(), More: u.Figures(n), Faults: bench.Missing(left)}, err
}
