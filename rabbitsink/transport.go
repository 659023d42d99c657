package rabbitsink

import (
	"context"
	"errors"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// transport is the TCP connection below the client. It adds two things that the client has not.
//
// Writes end: a server that hangs would block a write, and with it all users of the connection, until the kernel gives
// up. Here a write fails that gets on by no byte within the limit, unless the server has said that it reads nothing
// (a memory alarm), which is not a fault.
//
// Writes are gathered: the client writes each message by itself. Between hold and release they are put together
// (BenchmarkPublish).
type transport struct {
	net.Conn
	limit   time.Duration
	patient atomic.Bool // the server has said that it reads nothing
	dead    atomic.Bool

	mu   sync.Mutex
	held bool
	buf  []byte
}

const gathered = 64 << 10

// dial makes a transport. The context and the limit bound everything until established is called.
func dial(ctx context.Context, network, addr string, limit time.Duration) (*transport, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	return &transport{Conn: conn, limit: limit}, nil
}

func (t *transport) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.held {
		return t.write(p)
	}
	t.buf = append(t.buf, p...)
	if len(t.buf) >= gathered {
		return len(p), t.flush()
	}
	return len(p), nil
}

// hold begins to gather.
func (t *transport) hold() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.held = true
}

// release sends what was gathered.
func (t *transport) release() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.held = false
	return t.flush()
}

func (t *transport) flush() error {
	if len(t.buf) == 0 {
		return nil
	}
	_, err := t.write(t.buf)
	t.buf = t.buf[:0]
	return err
}

func (t *transport) write(p []byte) (written int, err error) {
	for {
		if err := t.Conn.SetWriteDeadline(time.Now().Add(t.limit)); err != nil {
			return written, err
		}
		n, err := t.Conn.Write(p[written:])
		written += n
		again := errors.Is(err, os.ErrDeadlineExceeded) && (n > 0 || t.patient.Load()) && !t.dead.Load()
		if !again {
			return written, err
		}
	}
}

// SetDeadline is for reads; writes have their own.
func (t *transport) SetDeadline(at time.Time) error { return t.Conn.SetReadDeadline(at) }

// Close ends the connection at once, blocked writes too.
func (t *transport) Close() error {
	t.dead.Store(true)
	return t.Conn.Close()
}
