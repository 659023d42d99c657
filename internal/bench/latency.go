package bench

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/outboxrelay/outbox"
)

// Times are those of each message, in nanoseconds since the start of the run. It is safe for concurrent use.
type Times struct {
	begin                   time.Time
	due, committed, handled []atomic.Int64
}

// NewTimes is for messages 1 to n.
func NewTimes(n int) *Times {
	return &Times{time.Now(), make([]atomic.Int64, n+1), make([]atomic.Int64, n+1), make([]atomic.Int64, n+1)}
}

func (ts *Times) now() int64 { return int64(time.Since(ts.begin)) }

// Handled notes that a message has arrived, the first time.
func (ts *Times) Handled(number int64) {
	if number > 0 && number < int64(len(ts.handled)) {
		ts.handled[number].CompareAndSwap(0, ts.now())
	}
}

// Route delivers to a sink, or if that is nil to a handler, and notes when: of a handler when it is called, of a sink
// when it has accepted.
func (ts *Times) Route(sink outbox.Sink, t *Tally) outbox.Route {
	note := func(d *outbox.Delivery) {
		number := NumberOf(d.Payload)
		ts.Handled(number)
		t.Deliver(number)
	}
	if sink != nil {
		return outbox.Route{Name: "bench", Topics: []string{">"}, Sink: Accepted(sink, note)}
	}
	handler := outbox.SinkFunc(func(_ context.Context, d *outbox.Delivery) error {
		note(d)
		return nil
	})
	return outbox.Route{Name: "bench", Topics: []string{">"}, Sink: handler}
}

// AtRate publishes each message when it is due, whatever became of the one before unless they are in order, and waits until all are settled
// by the relays. It returns how long publishing took.
func (w Writing) AtRate(ctx context.Context, f Receiver, rate int, t *Tally, ts *Times, stall time.Duration) (time.Duration, error) {
	if err := f.Ready(ctx); err != nil {
		return 0, err
	}
	ts.begin = time.Now()
	var group sync.WaitGroup
	errs := make([]error, t.messages())
	for i := range errs {
		due := time.Duration(i) * time.Second / time.Duration(rate)
		if errs[i] = Pause(ctx, time.Until(ts.begin.Add(due))); errs[i] != nil {
			break
		}
		number := i + 1
		ts.due[number].Store(int64(due))
		write := func() {
			errs[i] = w.WriteOne(ctx, i%(Writers*accounts), number)
			ts.committed[number].Store(ts.now())
		}
		if w.InOrder {
			write()
		} else {
			group.Go(write)
		}
	}
	group.Wait()
	if err := errors.Join(errs...); err != nil {
		return 0, fmt.Errorf("publish: %w", err)
	}
	took := time.Since(ts.begin)
	return took, t.Wait(ctx, f.Failed(), stall)
}

// Figures leave out the first second (or half of what there is), in which connections are made.
func (ts *Times) Figures(rate int) []Figure {
	var waits, all []time.Duration
	n := len(ts.due) - 1
	for i := min(rate, n/2) + 1; i <= n; i++ {
		// A handler may begin before the publisher has heard of its own commit.
		waits = append(waits, max(0, time.Duration(ts.handled[i].Load()-ts.committed[i].Load())))
		all = append(all, time.Duration(ts.handled[i].Load()-ts.due[i].Load()))
	}
	slices.Sort(waits)
	slices.Sort(all)
	return []Figure{
		{"p50 ms", Milliseconds(Percentile(waits, 50))}, {"p95 ms", Milliseconds(Percentile(waits, 95))},
		{"p99 ms", Milliseconds(Percentile(waits, 99))}, {"max ms", Milliseconds(Percentile(waits, 100))},
		{"due p50 ms", Milliseconds(Percentile(all, 50))}, {"due p99 ms", Milliseconds(Percentile(all, 99))},
	}
}
