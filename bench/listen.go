package main

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outboxrelay/outbox/pgstore"
)

// listener is a connection that listens as a relay's does.
type listener struct {
	conn   *pgx.Conn
	cancel context.CancelFunc
	ended  chan struct{}
}

// listen returns nil if there is nothing to hear.
func listen(ctx context.Context, url string, notify pgstore.NotifyMode) (*listener, error) {
	if notify == pgstore.NotifyOff {
		return nil, nil
	}
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
	if l == nil {
		return nil
	}
	l.cancel()
	<-l.ended
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	return l.conn.Close(ctx)
}
