package main

import (
	"context"
	_ "embed"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	riverqueue "github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"

	"github.com/outboxrelay/outbox/internal/bench"
)

//go:embed queries/river_fill.sql
var riverFillSQL string

// river has a job per message. The settings are those of its own benchmark command, which says that they have an
// outsized effect.
func river() peer {
	return peer{
		name: "River", prepare: prepareRiver, start: startRiver,
		empty:  "truncate river_job",
		fill:   riverFillSQL,
		remain: "select count(*) from river_job where state <> 'completed'",
	}
}

func prepareRiver(ctx context.Context, b *bench.Bed) error {
	pool, err := b.Pool(ctx, 2, &bench.Wire{})
	if err != nil {
		return err
	}
	defer pool.Close()
	m, err := rivermigrate.New(riverpgxv5.New(pool), &rivermigrate.Config{Logger: errorsFrom(slog.LevelError)})
	if err != nil {
		return err
	}
	_, err = m.Migrate(ctx, rivermigrate.DirectionUp, nil)
	return err
}

type riverMessage struct {
	Payload []byte `json:"payload"`
}

func (riverMessage) Kind() string { return "message" }

type riverWorker struct {
	riverqueue.WorkerDefaults[riverMessage]
	handle handler
}

func (w *riverWorker) Work(ctx context.Context, job *riverqueue.Job[riverMessage]) error {
	return w.handle(ctx, job.Args.Payload)
}

func startRiver(ctx context.Context, pool *pgxpool.Pool, handle handler) (func(context.Context) error, error) {
	workers := riverqueue.NewWorkers()
	riverqueue.AddWorker(workers, &riverWorker{handle: handle})
	client, err := riverqueue.NewClient(riverpgxv5.New(pool), &riverqueue.Config{
		FetchCooldown:     2 * time.Millisecond,
		FetchPollInterval: 20 * time.Millisecond,
		Queues:            map[string]riverqueue.QueueConfig{riverqueue.QueueDefault: {MaxWorkers: 2000}},
		Logger:            errorsFrom(slog.LevelError),
		Workers:           workers,
	})
	if err != nil {
		return nil, err
	}
	return client.Stop, client.Start(ctx)
}
