package main

import (
	"context"
	"encoding/binary"
	"net"
	"sync/atomic"
)

// wire counts what clients send: statements, and writes, of which each is a round trip or less. Pipelines do not
// show in pgx's tracer.
type wire struct {
	statements, writes atomic.Int64
}

func (w *wire) dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return &countedConn{Conn: conn, wire: w}, nil
}

type countedConn struct {
	net.Conn
	wire   *wire
	frames frames
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
