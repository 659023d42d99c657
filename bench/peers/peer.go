package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outboxrelay/outbox"
	"github.com/outboxrelay/outbox/internal/bench"
)

// conns is the size of each peer's pool; none was faster with more.
const conns = 10

// stopLimit is how long a peer may take to stop.
const stopLimit = 30 * time.Second

// peer is another system.
type peer struct {
	name string
	// prepare makes its tables if they are missing. It runs before the server counts anything.
	prepare func(ctx context.Context, b *bench.Bed) error
	empty   string // SQL that empties them
	fill    string // SQL that moves the messages of the outbox into them
	remain  string // SQL that counts what is not settled yet
	// start delivers to handle until it is stopped.
	start func(ctx context.Context, pool *pgxpool.Pool, handle handler) (stop func(ctx context.Context) error, err error)
}

// handler is what a peer calls for each message.
type handler func(ctx context.Context, payload []byte) error

func peerScenario(name, where string, to bench.Destination, share int, hold bench.HoldFunc) bench.Scenario {
	const ours = "outbox"
	backlog := func(b *bench.Bed) bench.Backlog { return bench.Backlog{Rows: b.Rows / 2 / share} }
	about := "half a backlog "
	if share > 1 {
		about = fmt.Sprintf("one in %d messages of a backlog ", 2*share)
	}
	sc := bench.Scenario{
		Name: name, Rate: "msg/s", Rounds: 3, About: about + where + ", without keys",
		Cases: []bench.Case{{Name: ours, Run: to.With(func(ctx context.Context, b *bench.Bed, target bench.Target) (bench.Sample, error) {
			return b.Drain(ctx, bench.Drain{Backlog: backlog(b), To: target, Hold: hold})
		})}},
	}
	for _, p := range peers() {
		sc.Cases = append(sc.Cases, bench.Case{Name: p.name, Compare: bench.Of("of outbox", ours),
			Run: to.With(func(ctx context.Context, b *bench.Bed, target bench.Target) (bench.Sample, error) {
				return p.drain(ctx, b, backlog(b), target, hold)
			})})
	}
	return sc
}

// drain measures from the start of the peer to when its tables say that everything is settled.
func (p peer) drain(ctx context.Context, b *bench.Bed, l bench.Backlog, to bench.Target, hold bench.HoldFunc) (bench.Sample, error) {
	if err := p.refill(ctx, b, l); err != nil {
		return bench.Sample{}, err
	}
	release, err := hold.Start(ctx, b)
	if err != nil {
		return bench.Sample{}, err
	}
	t := bench.NewTally(l.Rows, l.Keys)
	u, err := p.run(ctx, b, deliver(to, t), t, release)
	if err != nil {
		return bench.Sample{}, err
	}
	left, err := p.left(ctx, b)
	if err != nil {
		return bench.Sample{}, err
	}
	arrived, err := to.Arrived(ctx)
	return bench.Sample{Rate: float64(l.Rows) / u.Took.Seconds(), More: u.Figures(l.Rows), Faults: t.Faults(left, arrived)}, err
}

// run starts the peer and stops it; release is called afterwards.
func (p peer) run(ctx context.Context, b *bench.Bed, handle handler, t *bench.Tally, release func() error) (bench.Usage, error) {
	w := &bench.Wire{}
	m, err := b.StartMeter(ctx, w)
	if err != nil {
		return bench.Usage{}, errors.Join(err, release())
	}
	pool, err := b.Pool(ctx, conns, w)
	if err != nil {
		return bench.Usage{}, errors.Join(m.Abandon(err), release())
	}
	stop, err := p.start(ctx, pool, handle)
	if err != nil {
		pool.Close()
		return bench.Usage{}, errors.Join(m.Abandon(fmt.Errorf("start: %w", err)), release())
	}
	err = errors.Join(t.Wait(ctx, nil, b.Stall), p.settled(ctx, b, b.Stall))
	u, errFinish := m.Finish(ctx, func() error {
		defer pool.Close()
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopLimit)
		defer cancel()
		return errors.Join(stop(ctx), release())
	})
	return u, errors.Join(err, errFinish)
}

// deliver publishes by the same bare client for every peer, and waits for the acknowledgement.
func deliver(to bench.Target, t *bench.Tally) handler {
	return func(ctx context.Context, payload []byte) error {
		d := &outbox.Delivery{Message: outbox.Message{ID: outbox.NewID(), Topic: bench.Topic, Payload: payload}}
		if err := to.Publish(ctx, d); err != nil {
			return err
		}
		t.Deliver(bench.NumberOf(payload))
		t.Settle(1)
		return nil
	}
}

// refill makes a backlog in the peer's tables of the outbox's rows. The checkpoint comes before the rows, as for all.
func (p peer) refill(ctx context.Context, b *bench.Bed, l bench.Backlog) error {
	if err := p.prepare(ctx, b); err != nil {
		return fmt.Errorf("make tables: %w", err)
	}
	for _, step := range []func() error{
		func() error { return b.Exec(ctx, p.empty) },
		func() error { return b.Refill(ctx, l) },
		func() error { return b.Exec(ctx, p.fill) },
		func() error { return b.Truncate(ctx) },
		func() error { return b.Exec(ctx, "vacuum (analyze)") },
	} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// settled waits until nothing remains, or nothing has changed for the time of a stall: the faults tell.
func (p peer) settled(ctx context.Context, b *bench.Bed, limit time.Duration) error {
	deadline, before := time.Now().Add(limit), int64(-1)
	for {
		n, err := p.left(ctx, b)
		if err != nil || n == 0 || time.Now().After(deadline) {
			return err
		}
		if n != before {
			deadline, before = time.Now().Add(limit), n
		}
		if err := bench.Pause(ctx, 5*time.Millisecond); err != nil {
			return err
		}
	}
}

func (p peer) left(ctx context.Context, b *bench.Bed) (n int64, err error) {
	if err := b.Conn().QueryRow(ctx, p.remain).Scan(&n); err != nil {
		return 0, fmt.Errorf("count what remains: %w", err)
	}
	return n, nil
}

// errorsFrom logs what must not happen during a run: all from that level on.
func errorsFrom(level slog.Leveler) *slog.Logger {
	return slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: level}))
}
