package outboxtest

import (
	"context"
	"slices"
	"sync"

	"github.com/outboxrelay/outbox"
)

// Recorder is a sink that remembers what it was given, failed attempts included. The zero value accepts everything;
// Plan and Answer make it fail. It is safe for concurrent use; do not copy it after its first use.
type Recorder struct {
	mu         sync.Mutex
	deliveries []outbox.Delivery
	answer     func(ctx context.Context, d *outbox.Delivery) error
	planned    []error
	grown      chan struct{} // closed by the next delivery; nil while nobody waits
}

var _ outbox.Sink = (*Recorder)(nil)

// Answer makes f decide the result of every delivery that has no planned one. It may block.
func (r *Recorder) Answer(f func(ctx context.Context, d *outbox.Delivery) error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.answer = f
}

// Plan sets the results of the next deliveries, one each; nil accepts.
func (r *Recorder) Plan(results ...error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.planned = append(r.planned, results...)
}

// Deliver records the delivery and returns the planned result.
func (r *Recorder) Deliver(ctx context.Context, d *outbox.Delivery) error {
	answer, err := r.record(d)
	if answer != nil {
		return answer(ctx, d)
	}
	return err
}

func (r *Recorder) record(d *outbox.Delivery) (func(context.Context, *outbox.Delivery) error, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.deliveries = append(r.deliveries, *d)
	if r.grown != nil {
		close(r.grown)
		r.grown = nil
	}
	if len(r.planned) == 0 {
		return r.answer, nil
	}
	err := r.planned[0]
	r.planned = r.planned[1:]
	return nil, err
}

// Deliveries returns what was delivered so far, in order; failed attempts count too.
func (r *Recorder) Deliveries() []outbox.Delivery {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.deliveries)
}

// Wait returns when n deliveries have begun, or with the context's error.
func (r *Recorder) Wait(ctx context.Context, n int) error {
	for {
		grown := r.more(n)
		if grown == nil {
			return nil
		}
		select {
		case <-grown:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// more returns nil when n deliveries have begun, otherwise what the next one closes.
func (r *Recorder) more(n int) <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.deliveries) >= n {
		return nil
	}
	if r.grown == nil {
		r.grown = make(chan struct{})
	}
	return r.grown
}
