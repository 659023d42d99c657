package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/outboxrelay/outbox"
	"github.com/outboxrelay/outbox/internal/devservices/natsdev"
	"github.com/outboxrelay/outbox/natssink"
)

const benchStream = "BENCH"

// jetstreamScenario has the stream's server in this process, on files: client CPU includes it.
func jetstreamScenario() scenario {
	memory := "the client alone"
	sc := scenario{
		name: "jetstream", rate: "msg/s", ratio: "of the client alone",
		about: "half a backlog to a stream on files, every message acknowledged, beside the same client with the same window publishing from memory",
		cases: []benchCase{{name: memory, run: withStream(func(ctx context.Context, b *bench, sink *natssink.Sink) (sample, error) {
			return publishFromMemory(ctx, b.opt.rows/2, sink)
		})}},
	}
	for _, c := range []struct {
		name string
		keys int
	}{{"no keys", 0}, {"1000 keys", 1000}} {
		sc.cases = append(sc.cases, benchCase{c.name, memory, withStream(func(ctx context.Context, b *bench, sink *natssink.Sink) (sample, error) {
			return b.drain(ctx, drainRun{
				rows: b.opt.rows / 2, keys: c.keys, relays: 1, slots: drainSlots,
				to: func(t *tally) outbox.Sink { return &ackSink{sink, func(d *outbox.Delivery) { t.deliver(d.Seq) }} },
			})
		})})
	}
	return sc
}

// withStream gives a run a server and a stream of its own.
func withStream(run func(ctx context.Context, b *bench, sink *natssink.Sink) (sample, error)) func(context.Context, *bench) (sample, error) {
	return func(ctx context.Context, b *bench) (_ sample, err error) {
		server, err := natsdev.Start(natsdev.Config{})
		if err != nil {
			return sample{}, err
		}
		defer func() { err = errors.Join(err, server.Close()) }()
		if err := makeStream(ctx, server.URL()); err != nil {
			return sample{}, err
		}
		sink, err := natssink.Open(server.URL(), &natssink.Config{Stream: benchStream, Topics: []string{topic}, RetryHorizon: time.Minute})
		if err != nil {
			return sample{}, err
		}
		defer sink.Close()
		return run(ctx, b, sink)
	}
}

func makeStream(ctx context.Context, url string) error {
	conn, err := nats.Connect(url)
	if err != nil {
		return fmt.Errorf("connect to make the stream: %w", err)
	}
	defer conn.Close()
	js, err := jetstream.New(conn)
	if err != nil {
		return err
	}
	_, err = js.CreateStream(ctx, jetstream.StreamConfig{Name: benchStream, Subjects: []string{topic}, Storage: jetstream.FileStorage})
	return err
}

// ackSink tells of every message that the broker has acknowledged.
type ackSink struct {
	outbox.BatchSink
	acked func(d *outbox.Delivery)
}

func (s *ackSink) Deliver(ctx context.Context, d *outbox.Delivery) error {
	err := s.BatchSink.Deliver(ctx, d)
	if err == nil {
		s.acked(d)
	}
	return err
}

func (s *ackSink) DeliverBatch(ctx context.Context, ds []*outbox.Delivery, report func(i int, err error)) error {
	return s.BatchSink.DeliverBatch(ctx, ds, func(i int, err error) {
		if err == nil {
			s.acked(ds[i])
		}
		report(i, err)
	})
}

// publishFromMemory keeps as many messages in flight as a relay with drainSlots does, in batches of the same size.
func publishFromMemory(ctx context.Context, rows int, sink outbox.BatchSink) (sample, error) {
	t := newTally(rows, 0)
	batches := make(chan []*outbox.Delivery)
	failed := make(chan error, drainSlots/drainBatch)
	var publishers sync.WaitGroup
	begin := time.Now()
	for range drainSlots / drainBatch {
		publishers.Go(func() {
			for ds := range batches {
				report := func(i int, err error) {
					if err == nil {
						t.deliver(ds[i].Seq)
					}
				}
				if err := sink.DeliverBatch(ctx, ds, report); err != nil {
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
	return sample{rate: float64(rows) / took.Seconds(), faults: t.faults(0)}, err
}

func sendBatches(ctx context.Context, rows int, batches chan<- []*outbox.Delivery, failed <-chan error) error {
	for next := 1; next <= rows; {
		ds := make([]*outbox.Delivery, 0, drainBatch)
		for ; next <= rows && len(ds) < drainBatch; next++ {
			d := &outbox.Delivery{Seq: int64(next), Attempt: 1, PublishedAt: time.Now()}
			d.Message = outbox.Message{ID: outbox.NewID(), Topic: topic, Payload: newPayload(int64(next))}
			d.SetHeaders(map[string]string{"content-type": contentType})
			ds = append(ds, d)
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

// timedAck notes when the stream has acknowledged.
func timedAck(sink *natssink.Sink, t *tally, ts *times) outbox.Route {
	return outbox.Route{Name: "bench", Topics: []string{">"}, Sink: &ackSink{sink, func(d *outbox.Delivery) {
		i := int64(binary.BigEndian.Uint64(d.Payload))
		ts.handled[i].CompareAndSwap(0, ts.now())
		t.deliver(i + 1)
	}}}
}
