package main

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
	"github.com/outboxrelay/outbox/pgstore"
)

var (
	//go:embed queries/insert.sql
	insertSQL string
	//go:embed queries/work.sql
	workSQL string
)

// What is published, by everybody.
const (
	writers      = 8
	topic        = "orders.created"
	contentType  = "application/json"
	headers      = `{"content-type": "application/json"}`
	payloadBytes = 512
)

// publishFunc adds one message to a transaction.
type publishFunc func(ctx context.Context, tx pgx.Tx, payload []byte) error

func publishScenario() scenario {
	const bare = "bare INSERT"
	return scenario{
		name: "publish", rate: "tx/s", ratio: "of bare",
		about: "8 writers, a row update and one message per transaction, beside a bare INSERT of the same row",
		cases: []benchCase{
			{name: bare, run: publishBare},
			{name: "notifications on", base: bare, run: publishVia(pgstore.NotifyPublish)},
			{name: "notifications off", base: bare, run: publishVia(pgstore.NotifyOff)},
		},
	}
}

func publishBare(ctx context.Context, b *bench) (sample, error) {
	return b.publish(ctx, func(ctx context.Context, tx pgx.Tx, payload []byte) error {
		_, err := tx.Exec(ctx, insertSQL, outbox.NewID(), topic, "", payload, headers)
		return err
	})
}

// publishVia publishes through a Publisher; with notifications somebody listens for them.
func publishVia(notify pgstore.NotifyMode) func(ctx context.Context, b *bench) (sample, error) {
	return func(ctx context.Context, b *bench) (_ sample, err error) {
		publish, err := publisher(notify)
		if err != nil {
			return sample{}, err
		}
		if notify != pgstore.NotifyOff {
			l, err := listen(ctx, b.server.url)
			if err != nil {
				return sample{}, err
			}
			defer func() { err = errors.Join(err, l.stop()) }()
		}
		return b.publish(ctx, publish)
	}
}

func publisher(notify pgstore.NotifyMode) (publishFunc, error) {
	p, err := pgstore.NewPublisher(&pgstore.PublishConfig{Notify: notify})
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, tx pgx.Tx, payload []byte) error {
		_, err := p.Publish(ctx, tx, outbox.Message{Topic: topic, Payload: payload, ContentType: contentType})
		return err
	}, nil
}

// publish lets the writers commit as much as they can. What is lost is what committed and is not there.
func (b *bench) publish(ctx context.Context, publish publishFunc) (sample, error) {
	s := b.server
	w := &wire{}
	pool, err := s.pool(ctx, writers, w)
	if err != nil {
		return sample{}, err
	}
	defer pool.Close()
	if _, err := s.conn.Exec(ctx, emptySQL, pgx.QueryExecModeSimpleProtocol); err != nil {
		return sample{}, fmt.Errorf("empty the outbox: %w", err)
	}
	if err := s.exec(ctx, "checkpoint"); err != nil {
		return sample{}, err
	}
	m, err := s.startMeter(ctx, w)
	if err != nil {
		return sample{}, err
	}
	n, err := writeFor(ctx, pool, b.opt.publishFor, publish)
	if err != nil {
		return sample{}, err
	}
	u, err := m.stop(ctx)
	if err != nil {
		return sample{}, err
	}
	left, err := s.left(ctx)
	return sample{float64(n) / u.took.Seconds(), u.figures(n), faults{lost: int64(n) - left}}, err
}

// writeFor runs the writers for a time and returns how many transactions they committed.
func writeFor(ctx context.Context, pool *pgxpool.Pool, d time.Duration, publish publishFunc) (int, error) {
	deadline := time.Now().Add(d)
	var committed atomic.Int64
	var group sync.WaitGroup
	errs := make([]error, writers)
	for writer := range writers {
		group.Go(func() {
			for i := 0; time.Now().Before(deadline); i++ {
				if errs[writer] = writeOne(ctx, pool, writer*1000+i%1000, newPayload(int64(i)), publish); errs[writer] != nil {
					return
				}
				committed.Add(1)
			}
		})
	}
	group.Wait()
	return int(committed.Load()), errors.Join(errs...)
}

// writeOne is an application's transaction: it updates a row of its own and publishes.
func writeOne(ctx context.Context, pool *pgxpool.Pool, account int, payload []byte, publish publishFunc) error {
	return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, workSQL, account); err != nil {
			return fmt.Errorf("update account: %w", err)
		}
		return publish(ctx, tx, payload)
	})
}

// newPayload begins with the message's number.
func newPayload(number int64) []byte {
	return binary.BigEndian.AppendUint64(make([]byte, 0, payloadBytes), uint64(number))[:payloadBytes]
}

// listener is a connection that listens as a relay's does.
type listener struct {
	conn   *pgx.Conn
	cancel context.CancelFunc
	ended  chan struct{}
}

func listen(ctx context.Context, url string) (*listener, error) {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return nil, err
	}
	if _, err := conn.Exec(ctx, "listen outbox"); err != nil {
		return nil, errors.Join(err, conn.Close(ctx))
	}
	ctx, cancel := context.WithCancel(ctx)
	l := &listener{conn, cancel, make(chan struct{})}
	go func() {
		defer close(l.ended)
		for ctx.Err() == nil {
			if _, err := conn.WaitForNotification(ctx); err != nil {
				return
			}
		}
	}()
	return l, nil
}

func (l *listener) stop() error {
	l.cancel()
	<-l.ended
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	return l.conn.Close(ctx)
}
