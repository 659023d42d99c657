package main

import (
	"context"
	_ "embed"
	"errors"
	"log/slog"
	"math"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	watermillsql "github.com/ThreeDotsLabs/watermill-sql/v4/pkg/sql"
	"github.com/ThreeDotsLabs/watermill/components/forwarder"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outboxrelay/outbox/internal/bench"
)

var (
	//go:embed queries/watermill_default_fill.sql
	watermillDefaultFillSQL string
	//go:embed queries/watermill_default_remain.sql
	watermillDefaultRemainSQL string
	//go:embed queries/watermill_queue_fill.sql
	watermillQueueFillSQL string
)

// The topics of the forwarder, hence the names of its tables.
const (
	watermillDefaultTopic = "bench_default"
	watermillQueueTopic   = "bench_queue"
)

// watermillBatch is what its documentation says to raise for throughput; the default is 100.
const watermillBatch = 500

// bytea is what its documentation says for payloads that are no JSON. Envelopes are, but need not be parsed.
func bytea(string) string { return "BYTEA" }

func watermillDefault() peer {
	cfg := watermillsql.SubscriberConfig{
		SchemaAdapter:  watermillsql.DefaultPostgreSQLSchema{GeneratePayloadType: bytea, SubscribeBatchSize: watermillBatch},
		OffsetsAdapter: watermillsql.DefaultPostgreSQLOffsetsAdapter{},
	}
	return newWatermill("watermill-sql, default schema", watermillDefaultTopic, cfg, peer{
		empty:  "truncate watermill_bench_default, watermill_offsets_bench_default",
		fill:   watermillDefaultFillSQL,
		remain: watermillDefaultRemainSQL,
	})
}

func watermillQueue() peer {
	cfg := watermillsql.SubscriberConfig{
		SchemaAdapter:  watermillsql.PostgreSQLQueueSchema{GeneratePayloadType: bytea, SubscribeBatchSize: watermillBatch},
		OffsetsAdapter: watermillsql.PostgreSQLQueueOffsetsAdapter{DeleteOnAck: true},
	}
	return newWatermill("watermill-sql, queue schema", watermillQueueTopic, cfg, peer{
		empty:  "truncate watermill_bench_queue",
		fill:   watermillQueueFillSQL,
		remain: "select count(*) from watermill_bench_queue",
	})
}

// newWatermill reads by a subscriber and publishes by the forwarder, which takes messages out of their envelopes.
func newWatermill(name, topic string, cfg watermillsql.SubscriberConfig, p peer) peer {
	cfg.PollInterval = 10 * time.Millisecond
	p.name = name
	p.prepare = func(ctx context.Context, b *bench.Bed) error { return prepareWatermill(ctx, b, topic, cfg) }
	p.start = func(ctx context.Context, pool *pgxpool.Pool, handle handler) (func(context.Context) error, error) {
		return startWatermill(ctx, pool, topic, cfg, handle)
	}
	return p
}

func prepareWatermill(ctx context.Context, b *bench.Bed, topic string, cfg watermillsql.SubscriberConfig) error {
	pool, err := b.Pool(ctx, 2, &bench.Wire{})
	if err != nil {
		return err
	}
	defer pool.Close()
	sub, err := watermillsql.NewSubscriber(watermillsql.BeginnerFromPgx(pool), cfg, nil)
	if err != nil {
		return err
	}
	return errors.Join(sub.SubscribeInitialize(topic), sub.Close())
}

func startWatermill(ctx context.Context, pool *pgxpool.Pool, topic string, cfg watermillsql.SubscriberConfig, handle handler) (func(context.Context) error, error) {
	var level slog.LevelVar
	level.Set(slog.LevelError)
	log := watermill.NewSlogLogger(errorsFrom(&level))
	sub, err := watermillsql.NewSubscriber(watermillsql.BeginnerFromPgx(pool), cfg, log)
	if err != nil {
		return nil, err
	}
	f, err := forwarder.NewForwarder(sub, &watermillPublisher{handle}, log, forwarder.Config{ForwarderTopic: topic})
	if err != nil {
		return nil, err
	}
	ended := make(chan error, 1)
	go func() { ended <- f.Run(ctx) }()
	return func(ctx context.Context) error {
		level.Set(math.MaxInt) // it tells of what stopping does to it
		err := errors.Join(f.Close(), sub.Close())
		select {
		case errRun := <-ended:
			return errors.Join(err, errRun)
		case <-ctx.Done():
			return errors.Join(err, context.Cause(ctx))
		}
	}, nil
}

// watermillPublisher is where the forwarder publishes.
type watermillPublisher struct{ handle handler }

func (p *watermillPublisher) Publish(_ string, messages ...*message.Message) error {
	for _, m := range messages {
		if err := p.handle(m.Context(), m.Payload); err != nil {
			return err
		}
	}
	return nil
}

func (p *watermillPublisher) Close() error { return nil }
