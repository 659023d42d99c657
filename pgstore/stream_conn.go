package pgstore

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"net"
	"strconv"
	"time"

	"github.com/jackc/pglogrepl"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"
)

// streamConn is a replication connection. One goroutine uses it.
type streamConn struct {
	conn    *pgconn.PgConn
	server  int // the server's process
	rows    *assembler
	flushed pglogrepl.LSN // what the server need not keep for us
	heard   time.Time     // when the server last sent something
}

const (
	streamStatusEvery = time.Second
	// streamSilence is how long the server may send nothing before it is asked whether it still lives, and
	// streamPatience before the connection is given up.
	streamSilence  = 5 * time.Second
	streamPatience = 15 * time.Second
	streamConnect  = 10 * time.Second
)

var (
	errStreamEnded  = errors.New("the server has ended the stream")
	errSlotWaits    = errors.New("making the replication slot waits for transactions that write; outbox status names one that has been open for long")
	errStreamSilent = fmt.Errorf("the server has sent nothing for %v", streamPatience)
)

// publicationName is the publication's, cut as PostgreSQL cuts names.
func publicationName(schema string) string {
	const longest = 63
	name := "outbox_" + schema
	return name[:min(len(name), longest)]
}

// connect makes sure that there is a publication, connects, makes a temporary slot and starts it. Making the slot waits
// for the transactions that are writing somewhere in the database, however long they take; relays poll meanwhile.
func (st *stream) connect(ctx context.Context) (*streamConn, error) {
	name, err := st.prepare(ctx)
	if err != nil {
		return nil, err
	}
	schema := st.store.cfg.Schema
	c := &streamConn{rows: newAssembler(schema, publicationName(schema))}
	if c.conn, err = st.store.connectToReplicate(ctx); err != nil {
		return nil, st.store.explainStream(fmt.Errorf("connect to replicate: %w", err))
	}
	if c.server, err = backendOf(ctx, c.conn); err != nil {
		c.close()
		return nil, err
	}
	slot, err := st.createSlot(ctx, c.conn, name)
	if err != nil {
		c.close()
		return nil, st.store.explainStream(fmt.Errorf("create replication slot: %w", err))
	}
	if err := c.start(ctx, name, slot.ConsistentPoint, publicationName(schema)); err != nil {
		c.close()
		return nil, st.store.explainStream(fmt.Errorf("start replication: %w", err))
	}
	return c, nil
}

// createSlot says so when it takes long: nothing else would tell why the relay polls.
func (st *stream) createSlot(ctx context.Context, conn *pgconn.PgConn, name string) (pglogrepl.CreateReplicationSlotResult, error) {
	noted := make(chan struct{})
	timer := time.AfterFunc(streamSilence, func() {
		defer close(noted)
		st.stand(ctx, errSlotWaits)
	})
	defer func() {
		if !timer.Stop() {
			<-noted
		}
	}()
	return pglogrepl.CreateReplicationSlot(ctx, conn, name, "pgoutput",
		pglogrepl.CreateReplicationSlotOptions{Temporary: true, Mode: pglogrepl.LogicalReplication, SnapshotAction: "NOEXPORT_SNAPSHOT"})
}

// prepare returns the slot's name, after it has made the publication if that is missing.
func (st *stream) prepare(ctx context.Context) (slot string, err error) {
	s := st.store
	ctx, cancel := context.WithTimeout(ctx, streamConnect)
	defer cancel()
	var taken, published bool
	errs := s.run(ctx, s.transaction(call{s.sql.streamSlot, []any{publicationName(s.cfg.Schema)},
		func(rows pgx.Rows) error { return rows.Scan(&slot, &taken, &published) }}))
	switch {
	case errs[0] != nil:
		return "", s.explain("look for the replication slot", errs[0])
	case taken:
		return "", errOtherStreams
	case published:
		return slot, nil
	}
	errs = s.run(ctx, s.transaction(call{s.sql.createPublication, nil, nil}))
	if state, _ := sqlError(errs[0]); state == stateDuplicateObject {
		return slot, nil // another relay was faster
	}
	if errs[0] != nil {
		return "", s.explainStream(fmt.Errorf("create publication: %w", errs[0]))
	}
	return slot, nil
}

// connectToReplicate goes the listener's way: a replication connection cannot lead through a pooler either.
func (s *Store) connectToReplicate(ctx context.Context) (*pgconn.PgConn, error) {
	ctx, cancel := context.WithTimeout(ctx, streamConnect)
	defer cancel()
	cfg, before := s.pool.Config().ConnConfig, s.pool.Config().BeforeConnect
	if s.cfg.ListenURL != "" {
		var err error
		if cfg, err = pgx.ParseConfig(s.cfg.ListenURL); err != nil {
			return nil, err
		}
		before = s.cfg.BeforeListen
	}
	if before != nil {
		if err := before(ctx, cfg); err != nil {
			return nil, err
		}
	}
	cfg.RuntimeParams["replication"] = "database"
	return pgconn.ConnectConfig(ctx, &cfg.Config)
}

//go:embed queries/stream_backend.sql
var streamBackendSQL string

// backendOf asks for the server's process, which the slot belongs to. What the connection knows is a pooler's, if one passes
// replication on.
func backendOf(ctx context.Context, conn *pgconn.PgConn) (pid int, err error) {
	ctx, cancel := context.WithTimeout(ctx, streamConnect)
	defer cancel()
	results, err := conn.Exec(ctx, streamBackendSQL).ReadAll()
	if err == nil && (len(results) != 1 || len(results[0].Rows) != 1) {
		err = fmt.Errorf("%d answers", len(results))
	}
	if err == nil {
		pid, err = strconv.Atoi(string(results[0].Rows[0][0]))
	}
	if err != nil {
		return 0, fmt.Errorf("ask for the process of the replication connection: %w", err)
	}
	return pid, nil
}

func (c *streamConn) start(ctx context.Context, slot, from, publication string) error {
	lsn, err := pglogrepl.ParseLSN(from)
	if err != nil {
		return err
	}
	c.flushed, c.heard = lsn, time.Now()
	return pglogrepl.StartReplication(ctx, c.conn, slot, lsn, pglogrepl.StartReplicationOptions{
		Mode: pglogrepl.LogicalReplication,
		PluginArgs: []string{"proto_version '2'", "publication_names '\"" + publication + "\"'", "binary 'true'",
			"streaming 'true'", "messages 'true'"},
	})
}

// follow reads until the context is done or something fails.
func (c *streamConn) follow(ctx context.Context) error {
	// The deadline is set here and not by a context for each message, which would cost more than reading it.
	stop := context.AfterFunc(ctx, func() { _ = c.conn.Conn().SetReadDeadline(time.Now()) })
	defer stop()
	for {
		now := time.Now()
		if err := c.status(now, now.Sub(c.heard) > streamSilence); err != nil {
			return err
		}
		if err := c.conn.Conn().SetReadDeadline(now.Add(streamStatusEvery)); err != nil {
			return err
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err := c.readUntil(now.Add(streamStatusEvery)); err != nil {
			return err
		}
		if time.Since(c.heard) > streamPatience {
			return errStreamSilent
		}
	}
}

// readUntil reads until the given time, which is the read deadline as well.
func (c *streamConn) readUntil(until time.Time) error {
	for {
		m, err := c.conn.ReceiveMessage(context.Background())
		var timeout net.Error
		if errors.As(err, &timeout) && timeout.Timeout() {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read the stream: %w", err)
		}
		c.heard = time.Now()
		if err := c.take(m); err != nil || c.heard.After(until) {
			return err
		}
	}
}

// take handles one message of the replication protocol.
func (c *streamConn) take(m pgproto3.BackendMessage) error {
	switch m := m.(type) {
	case *pgproto3.ErrorResponse:
		return pgconn.ErrorResponseToPgError(m)
	case *pgproto3.CopyDone, *pgproto3.CommandComplete, *pgproto3.ReadyForQuery:
		return errStreamEnded
	case *pgproto3.CopyData:
		return c.takeData(m.Data)
	}
	return nil
}

func (c *streamConn) takeData(data []byte) error {
	if len(data) == 0 {
		return errTuple
	}
	switch data[0] {
	case pglogrepl.PrimaryKeepaliveMessageByteID:
		k, err := pglogrepl.ParsePrimaryKeepaliveMessage(data[1:])
		if err != nil {
			return err
		}
		c.received(k.ServerWALEnd)
		if k.ReplyRequested {
			return c.status(c.heard, false)
		}
	case pglogrepl.XLogDataByteID:
		x, err := pglogrepl.ParseXLogData(data[1:])
		if err != nil {
			return err
		}
		if err := c.rows.read(x.WALData); err != nil {
			return err
		}
		c.received(x.WALStart)
	}
	return nil
}

// received moves the flush position on, between transactions. Nothing that was received is needed again: the table has
// it. So the server keeps no WAL for us, whatever else is written, and can shut down at any time.
func (c *streamConn) received(lsn pglogrepl.LSN) {
	if c.rows.idle() && lsn > c.flushed {
		c.flushed = lsn
	}
}

// status tells the server how far this is.
func (c *streamConn) status(now time.Time, ask bool) error {
	if err := c.conn.Conn().SetWriteDeadline(now.Add(streamPatience)); err != nil {
		return err
	}
	err := pglogrepl.SendStandbyStatusUpdate(context.Background(), c.conn, pglogrepl.StandbyStatusUpdate{
		WALWritePosition: c.flushed, WALFlushPosition: c.flushed, WALApplyPosition: c.flushed, ReplyRequested: ask,
	})
	if err != nil {
		return fmt.Errorf("tell the position: %w", err)
	}
	return nil
}

// close ends the connection, and its slot with it.
func (c *streamConn) close() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = c.conn.Close(ctx)
	select {
	case <-c.conn.CleanupDone(): // an error makes it close by itself
	case <-ctx.Done():
	}
}
