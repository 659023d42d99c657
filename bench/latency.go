package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outboxrelay/outbox"
	"github.com/outboxrelay/outbox/pgstore"
)

func latencyScenario() scenario {
	return scenario{
		name: "latency", rate: "msg/s", rounds: 1,
		about: "commit → handler at a fixed rate that does not wait for anything; \"due\" counts from when the message was due to be published",
		cases: []benchCase{
			{name: "notifications on", run: latencyWith(pgstore.NotifyPublish)},
			{name: "notifications off", run: latencyWith(pgstore.NotifyOff)},
		},
	}
}

// times are those of each message, in nanoseconds since the start of the run.
type times struct {
	begin                   time.Time
	due, committed, handled []atomic.Int64
}

func newTimes(n int) *times {
	return &times{time.Now(), make([]atomic.Int64, n), make([]atomic.Int64, n), make([]atomic.Int64, n)}
}

func (ts *times) now() int64 { return int64(time.Since(ts.begin)) }

func latencyWith(notify pgstore.NotifyMode) func(ctx context.Context, b *bench) (sample, error) {
	return func(ctx context.Context, b *bench) (_ sample, err error) {
		s, n := b.server, int(b.opt.latencyFor.Seconds()*float64(b.opt.rate))
		if err := s.empty(ctx); err != nil {
			return sample{}, err
		}
		publish, err := publisher(notify)
		if err != nil {
			return sample{}, err
		}
		t, ts, w := newTally(n, 0), newTimes(n), &wire{}
		pool, err := s.pool(ctx, writers, w)
		if err != nil {
			return sample{}, err
		}
		defer pool.Close()
		m, err := s.startMeter(ctx, w)
		if err != nil {
			return sample{}, err
		}
		f, err := s.startFleet(ctx, fleetConfig{relays: 1, route: timedRoute(t, ts), notify: notify, tally: t, wire: w})
		if err != nil {
			return sample{}, err
		}
		took, err := publishAtRate(ctx, pool, f, b.opt.rate, t, ts, publish)
		u, errStop := m.stop(ctx)
		if err := errors.Join(err, errStop, f.stop()); err != nil {
			return sample{}, err
		}
		left, err := s.left(ctx)
		return sample{float64(n) / took.Seconds(), append(ts.figures(b.opt.rate), u.figures(n)...), t.faults(left)}, err
	}
}

// timedRoute notes when its handler is called.
func timedRoute(t *tally, ts *times) outbox.Route {
	sink := outbox.SinkFunc(func(_ context.Context, d *outbox.Delivery) error {
		i := int64(binary.BigEndian.Uint64(d.Payload))
		ts.handled[i].CompareAndSwap(0, ts.now())
		t.deliver(i + 1)
		return nil
	})
	return outbox.Route{Name: "bench", Topics: []string{">"}, Sink: sink}
}

// publishAtRate publishes each message when it is due, whatever became of the one before, and waits until all are
// settled.
func publishAtRate(ctx context.Context, pool *pgxpool.Pool, f *fleet, rate int, t *tally, ts *times, publish publishFunc) (time.Duration, error) {
	if err := f.ready(ctx); err != nil {
		return 0, err
	}
	ts.begin = time.Now()
	var group sync.WaitGroup
	errs := make([]error, t.messages())
	for i := range errs {
		due := time.Duration(i) * time.Second / time.Duration(rate)
		if errs[i] = sleepUntil(ctx, ts.begin.Add(due)); errs[i] != nil {
			break
		}
		ts.due[i].Store(int64(due))
		group.Go(func() {
			errs[i] = writeOne(ctx, pool, i%(writers*1000), newPayload(int64(i)), publish)
			ts.committed[i].Store(ts.now())
		})
	}
	group.Wait()
	if err := errors.Join(errs...); err != nil {
		return 0, fmt.Errorf("publish: %w", err)
	}
	took := time.Since(ts.begin)
	return took, t.wait(ctx, f.failed, stall)
}

func sleepUntil(ctx context.Context, at time.Time) error {
	timer := time.NewTimer(time.Until(at))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// figures leave out the first second (or what there is less of), in which connections are made.
func (ts *times) figures(rate int) []figure {
	var waits, all []time.Duration
	for i := min(rate, len(ts.due)/2); i < len(ts.due); i++ {
		// A handler may begin before the publisher has heard of its own commit.
		waits = append(waits, max(0, time.Duration(ts.handled[i].Load()-ts.committed[i].Load())))
		all = append(all, time.Duration(ts.handled[i].Load()-ts.due[i].Load()))
	}
	slices.Sort(waits)
	slices.Sort(all)
	return []figure{
		{"p50 ms", milliseconds(percentile(waits, 50))}, {"p95 ms", milliseconds(percentile(waits, 95))},
		{"p99 ms", milliseconds(percentile(waits, 99))}, {"max ms", milliseconds(percentile(waits, 100))},
		{"due p50 ms", milliseconds(percentile(all, 50))}, {"due p99 ms", milliseconds(percentile(all, 99))},
	}
}
