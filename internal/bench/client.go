package bench

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/outboxrelay/outbox"
)

// FromMemory is the client alone: messages go to the target's sink from memory while PostgreSQL idles, as many on
// their way, in batches of the same size, as a relay has.
func FromMemory(ctx context.Context, rows int, to Target) (Sample, error) {
	t := NewTally(rows, 0)
	batches := make(chan []*outbox.Delivery)
	failed := make(chan error, Window/Batch)
	sink := Accepted(to.Sink(), func(d *outbox.Delivery) { t.Deliver(NumberOf(d.Payload)) })
	var publishers sync.WaitGroup
	begin := time.Now()
	for range Window / Batch {
		publishers.Go(func() {
			for ds := range batches {
				if err := deliverAll(ctx, sink, ds); err != nil {
					failed <- err
					return
				}
			}
		})
	}
	err := sendBatches(ctx, rows, batches, failed)
	close(batches)
	publishers.Wait()
	took := time.Since(begin)
	select {
	case errLate := <-failed:
		err = errors.Join(err, errLate)
	default:
	}
	if err != nil {
		return Sample{}, err
	}
	arrived, err := to.Arrived(ctx)
	return Sample{Rate: float64(rows) / took.Seconds(), Faults: t.Faults(0, arrived)}, err
}

// deliverAll uses the batch if the sink takes one.
func deliverAll(ctx context.Context, sink outbox.Sink, ds []*outbox.Delivery) error {
	if batch, ok := sink.(outbox.BatchSink); ok {
		var mu sync.Mutex
		var errs []error
		err := batch.DeliverBatch(ctx, ds, func(_ int, err error) {
			if err != nil {
				mu.Lock()
				errs = append(errs, err)
				mu.Unlock()
			}
		})
		mu.Lock()
		defer mu.Unlock()
		return errors.Join(append(errs, err)...)
	}
	for _, d := range ds {
		if err := sink.Deliver(ctx, d); err != nil {
			return err
		}
	}
	return nil
}

func sendBatches(ctx context.Context, rows int, batches chan<- []*outbox.Delivery, failed <-chan error) error {
	for next := 1; next <= rows; {
		ds := make([]*outbox.Delivery, 0, Batch)
		for ; next <= rows && len(ds) < Batch; next++ {
			ds = append(ds, newDelivery(int64(next)))
		}
		select {
		case batches <- ds:
		case err := <-failed:
			return err
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

func newDelivery(number int64) *outbox.Delivery {
	d := &outbox.Delivery{Seq: number, Attempt: 1, PublishedAt: time.Now()}
	d.Message = outbox.Message{ID: outbox.NewID(), Topic: Topic, Payload: NewPayload(number, payloadBytes)}
	d.SetHeaders(map[string]string{"content-type": contentType})
	return d
}
