package bench

import (
	"context"
	_ "embed"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outboxrelay/outbox"
)

//go:embed queries/work.sql
var workSQL string

// What is published, by everybody.
const (
	Writers      = 8
	accounts     = 1000 // of each writer
	contentType  = "application/json"
	headers      = `{"content-type": "application/json"}`
	payloadBytes = 512
)

// PublishFunc adds one message to a transaction.
type PublishFunc func(ctx context.Context, tx pgx.Tx, payload []byte) error

// Publisher is a pgstore.Publisher or a Store.
type Publisher interface {
	Publish(ctx context.Context, tx pgx.Tx, messages ...outbox.Message) ([]outbox.Receipt, error)
}

// Via publishes by a Publisher.
func Via(p Publisher) PublishFunc { return ViaKey(p, "") }

// ViaKey gives all messages one key.
func ViaKey(p Publisher, key string) PublishFunc {
	return func(ctx context.Context, tx pgx.Tx, payload []byte) error {
		_, err := p.Publish(ctx, tx, outbox.Message{Topic: Topic, Key: key, Payload: payload, ContentType: contentType})
		return err
	}
}

// NewPayload begins with the message's number.
func NewPayload(number int64, size int) []byte {
	return binary.BigEndian.AppendUint64(make([]byte, 0, max(size, 8)), uint64(number))[:max(size, 8)]
}

// MakeAccounts makes the table that the application changes in its transactions, in the outbox's schema.
func (db *Database) MakeAccounts(ctx context.Context) error { return db.Exec(ctx, db.sql(accountSQL)) }

// WriteOne is an application's transaction: it updates a row and publishes. One in ten is open 10 ms longer, one in a
// hundred 100 ms, if they are mixed.
func (w Writing) WriteOne(ctx context.Context, account, number int) error {
	return pgx.BeginFunc(ctx, w.Pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, w.work, account); err != nil {
			return fmt.Errorf("update account: %w", err)
		}
		if err := w.Publish(ctx, tx, NewPayload(int64(number), w.Payload)); err != nil {
			return err
		}
		if !w.Mixed {
			return nil
		}
		switch {
		case number%100 == 0:
			return Pause(ctx, 100*time.Millisecond)
		case number%10 == 0:
			return Pause(ctx, 10*time.Millisecond)
		}
		return nil
	})
}

// Pause waits as one does that calls another service.
func Pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Writing is what applications do.
type Writing struct {
	Pool    *pgxpool.Pool
	Publish PublishFunc
	Payload int // bytes
	Mixed   bool
	InOrder bool // AtRate publishes one after the other
	work    string
}

// Writing makes one in this database.
func (db *Database) Writing(pool *pgxpool.Pool, publish PublishFunc) Writing {
	return Writing{Pool: pool, Publish: publish, Payload: payloadBytes, work: db.sql(workSQL)}
}

// For runs the writers for a time and returns how many transactions they committed.
func (w Writing) For(ctx context.Context, d time.Duration) (int, error) {
	deadline := time.Now().Add(d)
	var committed atomic.Int64
	var group sync.WaitGroup
	errs := make([]error, Writers)
	for writer := range Writers {
		group.Go(func() {
			for i := 1; time.Now().Before(deadline); i++ {
				if errs[writer] = w.WriteOne(ctx, writer*accounts+i%accounts, i); errs[writer] != nil {
					return
				}
				committed.Add(1)
			}
		})
	}
	group.Wait()
	return int(committed.Load()), errors.Join(errs...)
}
