package pgstore

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/outboxrelay/outbox"
)

// copyCounter counts a connection's COPYs.
type copyCounter struct{ n atomic.Int64 }

func (c *copyCounter) TraceCopyFromStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceCopyFromStartData) context.Context {
	c.n.Add(1)
	return ctx
}

func (*copyCounter) TraceCopyFromEnd(context.Context, *pgx.Conn, pgx.TraceCopyFromEndData) {}

func (*copyCounter) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	return ctx
}

func (*copyCounter) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// connectCounting makes a connection that counts its COPYs.
func connectCounting(t *testing.T, url string, mode pgx.QueryExecMode) (*pgx.Conn, *copyCounter) {
	t.Helper()
	cfg, err := pgx.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	counter := &copyCounter{}
	cfg.Tracer, cfg.DefaultQueryExecMode = counter, mode
	conn, err := pgx.ConnectConfig(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close(context.Background()) })
	return conn, counter
}

// copyable returns so many messages that COPY can publish, every one of everyMessage among them.
func copyable(n int) []outbox.Message {
	every := slices.DeleteFunc(everyMessage(), func(m outbox.Message) bool {
		return m.TTL > 0 || !m.ExpiresAt.IsZero() || m.BrokerTTL > 0
	})
	ms := make([]outbox.Message, 0, n)
	for i := range n {
		ms = append(ms, every[i%len(every)])
	}
	return ms
}

// TestPublishCopy: what goes by COPY becomes the same rows in the same order, in every mode.
func TestPublishCopy(t *testing.T) {
	t.Parallel()
	for name, mode := range execModes {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := migratedDatabase(t)
			conn, copies := connectCounting(t, url, mode)
			ms := copyable(copyLeast + 7)
			receipts := publish(t, conn, newPublisher(t, nil), ms...)
			if n := copies.n.Load(); n != 1 {
				t.Errorf("%d COPYs", n)
			}
			checkStored(t, stored(t, connect(t, url)), ms, receipts)
		})
	}
}

// TestPublishCopyWhen: few messages, and those that need more than values, go by INSERT.
func TestPublishCopyWhen(t *testing.T) {
	t.Parallel()
	url := migratedDatabase(t)
	conn, copies := connectCounting(t, url, pgx.QueryExecModeCacheStatement)
	for name, c := range map[string]struct {
		n    int
		odd  outbox.Message
		want int64
	}{
		"enough":      {copyLeast, outbox.Message{}, 1},
		"many":        {3*chunkMessages + 1, outbox.Message{MaxAttempts: 7}, 1},
		"too few":     {copyLeast - 1, outbox.Message{}, 0},
		"dedup key":   {copyLeast, outbox.Message{DedupKey: "d"}, 0},
		"own id":      {copyLeast, outbox.Message{ID: outbox.NewID()}, 0},
		"delay":       {copyLeast, outbox.Message{Delay: time.Nanosecond}, 0},
		"deliver at":  {copyLeast, outbox.Message{DeliverAt: time.Unix(1e9, 0)}, 0},
		"ttl":         {copyLeast, outbox.Message{TTL: time.Hour}, 0},
		"expires at":  {copyLeast, outbox.Message{ExpiresAt: time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC)}, 0},
		"broker life": {copyLeast, outbox.Message{BrokerTTL: time.Hour}, 0},
	} {
		ms := make([]outbox.Message, c.n)
		for i := range ms {
			ms[i].Topic = "t"
		}
		c.odd.Topic = "t"
		ms[c.n/2] = c.odd
		before := copies.n.Load()
		receipts := publish(t, conn, newPublisher(t, nil), ms...)
		if n := copies.n.Load() - before; n != c.want || len(receipts) != c.n {
			t.Errorf("%s: %d COPYs, want %d; %d receipts", name, n, c.want, len(receipts))
		}
	}
}

// TestPublishCopyErrors: an error names the message, and the transaction is aborted; what is refused before touches
// nothing.
func TestPublishCopyErrors(t *testing.T) {
	t.Parallel()
	conn := connect(t, migratedDatabase(t))
	exec(t, conn, "alter table outbox.message add constraint no_bad check (topic <> 'bad')")
	p := newPublisher(t, nil)
	ms := copyable(copyLeast)
	ms[123].Topic = "bad"
	tx := begin(t, conn)
	_, err := p.Publish(t.Context(), tx, ms...)
	var pgErr *pgconn.PgError
	if !errors.As(err, &pgErr) || pgErr.ConstraintName != "no_bad" || !strings.Contains(err.Error(), "of topic bad") {
		t.Errorf("%v", err)
	}
	if err := tx.Commit(t.Context()); !errors.Is(err, pgx.ErrTxCommitRollback) {
		t.Errorf("commit: %v", err)
	}
	ms[123].Topic = "not a topic"
	var refused *outbox.FieldError
	if _, err := p.Publish(t.Context(), finishedTx{}, ms...); !errors.As(err, &refused) || !strings.Contains(err.Error(), "message 124 of 500") {
		t.Errorf("%v", err)
	}
	if _, err := p.Publish(t.Context(), tx, copyable(copyLeast)...); !errors.Is(err, pgx.ErrTxClosed) {
		t.Errorf("finished: %v", err)
	}
	exec(t, conn, "drop schema outbox cascade")
	tx = begin(t, conn)
	if _, err := p.Publish(t.Context(), tx, copyable(copyLeast)...); !errors.Is(err, outbox.ErrSchemaMissing) {
		t.Errorf("no schema: %v", err)
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// TestNotifyCopy: a COPY wakes once, unless a savepoint takes it back.
func TestNotifyCopy(t *testing.T) {
	t.Parallel()
	url := migratedDatabase(t)
	conn, listener := connect(t, url), listen(t, url)
	p := newPublisher(t, nil)
	publish(t, conn, p, copyable(copyLeast)...)
	listener.expect(t, 1)
	publish(t, conn, newPublisher(t, &PublishConfig{Notify: NotifyOff}), copyable(copyLeast)...)
	listener.expect(t, 0)
	tx := begin(t, conn)
	inner := savepoint(t, tx)
	succeed(t)(p.Publish(t.Context(), inner, copyable(copyLeast)...))
	openPgx{inner}.end(t, false)
	openPgx{tx}.end(t, true)
	listener.expect(t, 0)
	if n := value[int](t, conn, "select count(*) from outbox.message"); n != 2*copyLeast {
		t.Errorf("%d messages", n)
	}
}
