package bench

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"

	"github.com/outboxrelay/outbox"
	"github.com/outboxrelay/outbox/pgstore"
)

// The claims of the relays that drain, and how many messages they have on their way.
const (
	Window = 2000
	Batch  = 500
)

// Drain is a backlog and the relays that drain it.
type Drain struct {
	Backlog
	Relays  int                                                 // default 1
	Slots   int                                                 // default Window
	Topics  []string                                            // default all
	Until   int                                                 // messages that are delivered before the relays stop; default all
	Handler func(ctx context.Context, d *outbox.Delivery) error // delivers instead of To
	To      Target                                              // default nowhere
	Hold    HoldFunc                                            // what is open meanwhile
	Memory  bool                                                // adds figures of this process's memory
	Hooks   outbox.Hooks                                        // of the relays
}

// Drain measures from the start of the relays to the settlement of the last message.
func (b *Bed) Drain(ctx context.Context, run Drain) (Sample, error) {
	if err := b.backend.Refill(ctx, run.Backlog); err != nil {
		return Sample{}, err
	}
	release, err := run.Hold.Start(ctx, b)
	if err != nil {
		return Sample{}, err
	}
	if run.To == nil {
		run.To = nowhere{}
	}
	t, w := NewTally(run.Rows, run.Keys), &Wire{}
	t.Until(cmp.Or(run.Until, run.Rows))
	u, n, err := b.drain(ctx, run, t, w, release)
	if err != nil {
		return Sample{}, err
	}
	left, err := b.backend.Left(ctx, run.Stay())
	if err != nil {
		return Sample{}, err
	}
	arrived, err := run.To.Arrived(ctx)
	return run.sample(u, n, t.Faults(left, arrived)), err
}

// drain runs the relays; release is called when they have stopped. It returns how many messages were settled in the
// measured time: those beyond what was waited for count too.
func (b *Bed) drain(ctx context.Context, run Drain, t *Tally, w *Wire, release func() error) (Usage, int, error) {
	m, err := b.StartMeter(ctx, w)
	if err != nil {
		return Usage{}, 0, errors.Join(err, release())
	}
	f, err := StartFleet(ctx, b.backend.Stores, FleetConfig{Relays: cmp.Or(run.Relays, 1), Route: run.route(t), Notify: pgstore.NotifyPublish, Tally: t, Wire: w, Hooks: run.Hooks})
	if err != nil {
		return Usage{}, 0, errors.Join(m.Abandon(err), release())
	}
	err = t.Wait(ctx, f.Failed(), b.Stall)
	n := int(t.settled.Load())
	u, errFinish := m.Finish(ctx, func() error { return errAll(f.Stop, release) })
	return u, n, errors.Join(err, errFinish)
}

func (run Drain) sample(u Usage, n int, f Faults) Sample {
	more := append(u.Figures(n), u.CallFigures(n)...)
	if run.Memory {
		more = append(more, u.MemoryFigures()...)
	}
	return Sample{float64(n) / u.Took.Seconds(), more, f}
}

// route sends everything to the sink, which tells the tally.
func (run Drain) route(t *Tally) outbox.Route {
	to := outbox.Route{Name: "bench", Topics: run.Topics, Slots: cmp.Or(run.Slots, Window), BatchSize: Batch}
	if to.Topics == nil {
		to.Topics = []string{">"}
	}
	sink := run.To.Sink()
	if run.Handler != nil {
		sink = outbox.SinkFunc(run.Handler)
	}
	to.Sink = Accepted(sink, func(d *outbox.Delivery) { t.Deliver(NumberOf(d.Payload)) })
	return to
}

// NumberOf is the number of a message, which is in the first bytes of its payload; negative without one.
func NumberOf(payload []byte) int64 {
	if len(payload) < 8 {
		return -1
	}
	return int64(binary.BigEndian.Uint64(payload))
}
