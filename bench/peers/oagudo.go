package main

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	oagudooutbox "github.com/oagudo/outbox"

	"github.com/outboxrelay/outbox/internal/bench"
)

var (
	//go:embed queries/oagudo_table.sql
	oagudoTableSQL string
	//go:embed queries/oagudo_fill.sql
	oagudoFillSQL string
)

// oagudoBatch is far above the defaults, 100 to read and 20 to delete; its documentation says that larger ones save
// round trips.
const oagudoBatch = 500

// oagudo has one reader: it claims nothing, so that several would send everything several times.
func oagudo() peer {
	return peer{
		name: "oagudo/outbox", prepare: func(ctx context.Context, b *bench.Bed) error { return b.Exec(ctx, oagudoTableSQL) },
		start:  startOagudo,
		empty:  "truncate outbox",
		fill:   oagudoFillSQL,
		remain: "select count(*) from outbox",
	}
}

type oagudoPublisher struct{ handle handler }

func (p *oagudoPublisher) Publish(ctx context.Context, m *oagudooutbox.Message) error {
	return p.handle(ctx, m.Payload)
}

func startOagudo(_ context.Context, pool *pgxpool.Pool, handle handler) (func(context.Context) error, error) {
	db := stdlib.OpenDBFromPool(pool)
	reader := oagudooutbox.NewReader(oagudooutbox.NewDBContext(db, oagudooutbox.SQLDialectPostgres), &oagudoPublisher{handle},
		oagudooutbox.WithInterval(time.Millisecond), oagudooutbox.WithReadBatchSize(oagudoBatch),
		oagudooutbox.WithDeleteBatchSize(oagudoBatch))
	reader.Start()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for err := range reader.Errors() {
			if !errors.Is(err, context.Canceled) { // it is what stopping does
				fmt.Fprintln(os.Stderr, "oagudo/outbox:", err)
			}
		}
	}()
	return func(ctx context.Context) error {
		if err := reader.Stop(ctx); err != nil {
			return err
		}
		<-ended
		return db.Close()
	}, nil
}
