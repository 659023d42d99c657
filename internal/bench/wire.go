package bench

import (
	"context"
	"encoding/binary"
	"net"
	"sync"
	"sync/atomic"
)

// Wire counts what clients send: statements, and writes, of which each is a round trip or less (pipelines do not
// show in pgx's tracer), and how many connections are open at a time. It is safe for concurrent use.
type Wire struct {
	statements, writes atomic.Int64
	open, most         atomic.Int64
}

func (w *Wire) opened() {
	n := w.open.Add(1)
	for most := w.most.Load(); n > most && !w.most.CompareAndSwap(most, n); most = w.most.Load() {
	}
}

func (w *Wire) dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	w.opened()
	return &countedConn{Conn: conn, wire: w}, nil
}

type countedConn struct {
	net.Conn
	wire   *Wire
	frames frames
	once   sync.Once
}

func (c *countedConn) Close() error {
	c.once.Do(func() { c.wire.open.Add(-1) })
	return c.Conn.Close()
}

func (c *countedConn) Write(b []byte) (int, error) {
	c.wire.writes.Add(1)
	c.wire.statements.Add(c.frames.statements(b))
	return c.Conn.Write(b)
}

// frames follows the messages of the protocol through writes that may end anywhere.
type frames struct {
	started bool // past the first message, the only one without a type
	head    []byte
	body    int // bytes left of the message
}

// statements counts the executions among the messages that begin in b.
func (f *frames) statements(b []byte) (n int64) {
	for len(b) > 0 {
		if f.body > 0 {
			skip := min(f.body, len(b))
			f.body -= skip
			b = b[skip:]
			continue
		}
		size := 4
		if f.started {
			size = 5
		}
		take := min(size-len(f.head), len(b))
		f.head = append(f.head, b[:take]...)
		b = b[take:]
		if len(f.head) < size {
			break
		}
		if f.started && (f.head[0] == 'E' || f.head[0] == 'Q') {
			n++
		}
		f.body = int(binary.BigEndian.Uint32(f.head[size-4:])) - 4
		f.head, f.started = f.head[:0], true
	}
	return n
}
