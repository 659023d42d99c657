package bench

import (
	"context"
	_ "embed"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pglogrepl"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outboxrelay/outbox"
	"github.com/outboxrelay/outbox/pgstore"
)

//go:embed queries/burst.sql
var burstSQL string

// streaming is the server with relays that have the WAL engine.
type streaming struct{ *Server }

// Stores opens stores with the WAL engine.
func (s streaming) Stores(ctx context.Context, w *Wire, notify pgstore.NotifyMode) (outbox.Store, func(), error) {
	return asStore(s.OpenStore(ctx, w, pgstore.Config{Notify: notify, Engine: pgstore.EngineWAL}))
}

// StreamStores opens stores with the WAL engine, whichever the options name.
func (b *Bed) StreamStores(ctx context.Context, w *Wire, notify pgstore.NotifyMode) (outbox.Store, func(), error) {
	return streaming{b.Server}.Stores(ctx, w, notify)
}

// AwaitStream waits until a relay streams, and a second longer, in which its lanes come to follow the stream.
func (b *Bed) AwaitStream(ctx context.Context) error {
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); {
		var streams bool
		if err := b.conn.QueryRow(ctx, b.sql("select exists (select from outbox.relay r where r.streaming)")).Scan(&streams); err != nil {
			return err
		}
		if streams {
			return Pause(ctx, time.Second)
		}
		if err := Pause(ctx, 10*time.Millisecond); err != nil {
			return err
		}
	}
	return errors.New("no relay streams")
}

// Receiver is what messages arrive at.
type Receiver interface {
	Ready(ctx context.Context) error
	Failed() <-chan error
}

// Burst commits all messages, so many in each transaction, as fast as one connection can, and waits until they are
// settled.
func (b *Bed) Burst(ctx context.Context, pool *pgxpool.Pool, r Receiver, rows, keys, each int, t *Tally) error {
	if err := r.Ready(ctx); err != nil {
		return err
	}
	for from := 1; from <= rows; from += each {
		to := min(from+each-1, rows)
		if _, err := pool.Exec(ctx, b.sql(burstSQL), from, to, keys, payloadBytes, Topic); err != nil {
			return fmt.Errorf("publish: %w", err)
		}
	}
	return t.Wait(ctx, r.Failed(), b.Stall)
}

// DecodeLoop is the reference for the WAL engine: a page of code that decodes insertions and deletes the rows. It has no
// claims, no order, no retries, no other relay, and forgets what was there before it began.
type DecodeLoop struct {
	conn   *pgconn.PgConn
	pool   *pgxpool.Pool
	note   func(number int64)
	settle func(n int)
	delete string
	failed chan error
	cancel context.CancelFunc
	ended  chan struct{}
}

// StartDecodeLoop starts the loop; Stop ends it. note is called for each message that arrives, settle for so many that are
// deleted.
func (b *Bed) StartDecodeLoop(ctx context.Context, w *Wire, note func(number int64), settle func(n int)) (*DecodeLoop, error) {
	if err := b.Exec(ctx, b.sql("drop publication if exists bare; create publication bare for table outbox.message")); err != nil {
		return nil, err
	}
	pool, err := b.Pool(ctx, 1, w)
	if err != nil {
		return nil, err
	}
	cfg := b.config.ConnConfig.Copy()
	cfg.RuntimeParams["replication"] = "database"
	conn, err := pgconn.ConnectConfig(ctx, &cfg.Config)
	if err == nil {
		_, err = pglogrepl.CreateReplicationSlot(ctx, conn, "bare", "pgoutput", pglogrepl.CreateReplicationSlotOptions{Temporary: true, Mode: pglogrepl.LogicalReplication})
	}
	if err == nil {
		err = pglogrepl.StartReplication(ctx, conn, "bare", 0, pglogrepl.StartReplicationOptions{Mode: pglogrepl.LogicalReplication,
			PluginArgs: []string{"proto_version '1'", "publication_names 'bare'", "binary 'true'"}})
	}
	if err != nil {
		pool.Close()
		return nil, fmt.Errorf("start the decoding loop: %w", err)
	}
	l := &DecodeLoop{conn: conn, pool: pool, note: note, settle: settle, delete: b.sql(deleteSQL), failed: make(chan error, 1), ended: make(chan struct{})}
	ctx, l.cancel = context.WithCancel(ctx)
	go func() {
		defer close(l.ended)
		if err := l.run(ctx); ctx.Err() == nil {
			l.failed <- err
		}
	}()
	return l, nil
}

// Ready returns at once: the loop reads from its slot's beginning.
func (l *DecodeLoop) Ready(context.Context) error { return nil }

// Failed tells of a loop that ended early.
func (l *DecodeLoop) Failed() <-chan error { return l.failed }

// Stop ends the loop.
func (l *DecodeLoop) Stop() error {
	l.cancel()
	<-l.ended
	l.pool.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	return l.conn.Close(ctx)
}

// run deletes what has arrived when there are enough of it, or nothing more arrives within a millisecond.
func (l *DecodeLoop) run(ctx context.Context) error {
	var seqs []int64
	var end pglogrepl.LSN
	for {
		if len(seqs) >= Batch {
			if err := l.remove(ctx, &seqs, end); err != nil {
				return err
			}
		}
		if err := l.conn.Conn().SetReadDeadline(time.Now().Add(time.Millisecond)); err != nil {
			return err
		}
		m, err := l.conn.ReceiveMessage(context.Background())
		switch {
		case ctx.Err() != nil:
			return nil
		case pgconn.Timeout(err):
			if err := l.remove(ctx, &seqs, end); err != nil {
				return err
			}
			continue
		case err != nil:
			return err
		}
		data, ok := m.(*pgproto3.CopyData)
		if !ok || data.Data[0] != pglogrepl.XLogDataByteID {
			continue
		}
		x, err := pglogrepl.ParseXLogData(data.Data[1:])
		if err != nil {
			return err
		}
		end = max(end, x.WALStart)
		if x.WALData[0] != 'I' {
			continue
		}
		row, err := pglogrepl.Parse(x.WALData)
		if err != nil {
			return err
		}
		columns := row.(*pglogrepl.InsertMessage).Tuple.Columns
		seqs = append(seqs, int64(binary.BigEndian.Uint64(columns[0].Data)))
		l.note(NumberOf(columns[4].Data))
	}
}

func (l *DecodeLoop) remove(ctx context.Context, seqs *[]int64, end pglogrepl.LSN) error {
	for batch := range slices.Chunk(*seqs, Batch) {
		// A commit is decoded before others see it, so that now and then a row is not there yet.
		for left := int64(len(batch)); left > 0; {
			tag, err := l.pool.Exec(ctx, l.delete, batch)
			if err != nil {
				return err
			}
			left -= tag.RowsAffected()
		}
		l.settle(len(batch))
	}
	if len(*seqs) == 0 {
		return nil
	}
	*seqs = (*seqs)[:0]
	return pglogrepl.SendStandbyStatusUpdate(ctx, l.conn, pglogrepl.StandbyStatusUpdate{WALWritePosition: end})
}
