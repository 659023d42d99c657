package main

import (
	"context"
	"errors"

	"github.com/outboxrelay/outbox"
	"github.com/outboxrelay/outbox/internal/devservices/rabbitdev"
	"github.com/outboxrelay/outbox/rabbitsink"
)

const benchExchange = "bench"

// rabbitmqScenario has a private node, with a classic durable queue that gets every message.
func rabbitmqScenario() scenario {
	memory := "the client alone"
	sc := scenario{
		name: "rabbitmq", rate: "msg/s", ratio: "of the client alone",
		about: "a tenth of a backlog to a durable queue, persistent, every message confirmed, beside the same client with the same window publishing from memory",
		cases: []benchCase{{name: memory, run: withExchange(func(ctx context.Context, b *bench, sink *rabbitsink.Sink) (sample, error) {
			return publishFromMemory(ctx, b.opt.rows/10, sink)
		})}},
	}
	for _, c := range []struct {
		name string
		keys int
	}{{"no keys", 0}, {"1000 keys", 1000}} {
		sc.cases = append(sc.cases, benchCase{c.name, memory, withExchange(func(ctx context.Context, b *bench, sink *rabbitsink.Sink) (sample, error) {
			return b.drain(ctx, drainRun{
				rows: b.opt.rows / 10, keys: c.keys, relays: 1, slots: drainSlots,
				to: func(t *tally) outbox.Sink { return &ackSink{sink, func(d *outbox.Delivery) { t.deliver(d.Seq) }} },
			})
		})})
	}
	return sc
}

// rabbit is the node of all runs, made by the first: it takes seconds to start.
func (b *bench) rabbit(ctx context.Context) (*rabbitdev.Server, error) {
	if b.node != nil {
		return b.node, nil
	}
	node, err := rabbitdev.Start(ctx)
	if err != nil {
		return nil, err
	}
	b.node = node
	return node, nil
}

// close ends what the scenarios have started.
func (b *bench) close() error {
	if b.node == nil {
		return nil
	}
	return b.node.Close()
}

// withExchange gives a run an exchange and a queue of its own.
func withExchange(run func(ctx context.Context, b *bench, sink *rabbitsink.Sink) (sample, error)) func(context.Context, *bench) (sample, error) {
	return func(ctx context.Context, b *bench) (_ sample, err error) {
		server, err := b.rabbit(ctx)
		if err != nil {
			return sample{}, err
		}
		if err := server.Bind(benchExchange, benchExchange, "#", nil); err != nil {
			return sample{}, err
		}
		defer func() { err = errors.Join(err, server.Delete(benchExchange, benchExchange)) }()
		sink, err := rabbitsink.Open(server.URL(), &rabbitsink.Config{Exchange: benchExchange})
		if err != nil {
			return sample{}, err
		}
		defer sink.Close()
		if err := sink.Ping(ctx); err != nil {
			return sample{}, err
		}
		return run(ctx, b, sink)
	}
}
