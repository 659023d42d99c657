package bench

import (
	"net"
	"testing"
)

// Messages of PostgreSQL's protocol.
var (
	startup = "\x00\x00\x00\x08\x00\x03\x00\x00"
	bind    = "B\x00\x00\x00\x07EEE" // a body that looks like executions
	execute = "E\x00\x00\x00\x09\x00\x00\x00\x00\x00"
	query   = "Q\x00\x00\x00\x06x\x00"
	end     = "S\x00\x00\x00\x04"
)

func TestFrames(t *testing.T) {
	stream := startup + bind + execute + end + query + bind + execute + execute + end
	for _, size := range []int{1, 2, 3, 7, len(stream)} {
		var f frames
		var n int64
		for from := 0; from < len(stream); from += size {
			n += f.statements([]byte(stream[from:min(from+size, len(stream))]))
		}
		if n != 4 {
			t.Errorf("in writes of %d bytes: %d statements, want 4", size, n)
		}
	}
}

func TestWireConnections(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	w := &Wire{}
	for range 3 {
		var conns []net.Conn
		for range 2 {
			conn, err := w.dial(t.Context(), "tcp", l.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			conns = append(conns, conn)
		}
		for _, conn := range append(conns, conns...) {
			_ = conn.Close() // the second time is an error, and must not count
		}
	}
	if most, open := w.most.Load(), w.open.Load(); most != 2 || open != 0 {
		t.Errorf("%d connections at most, %d now; want 2 and 0", most, open)
	}
}
