package faultnet

import (
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// echo is a server that answers what it is told.
func echo(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				_, _ = io.Copy(conn, conn)
			}()
		}
	}()
	return listener.Addr().String()
}

func dial(t *testing.T) (*Proxy, net.Conn) {
	t.Helper()
	p, err := Start(echo(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	conn, err := net.Dial("tcp", p.Addr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return p, conn
}

func say(t *testing.T, conn net.Conn, patience time.Duration) error {
	t.Helper()
	if _, err := conn.Write([]byte("x")); err != nil {
		return err
	}
	return hear(conn, patience)
}

func hear(conn net.Conn, patience time.Duration) error {
	if err := conn.SetReadDeadline(time.Now().Add(patience)); err != nil {
		return err
	}
	_, err := io.ReadFull(conn, make([]byte, 1))
	return err
}

func TestProxyCarriesFreezesAndThaws(t *testing.T) {
	p, conn := dial(t)
	if err := say(t, conn, 10*time.Second); err != nil {
		t.Fatal(err)
	}
	p.Freeze()
	if err := say(t, conn, 50*time.Millisecond); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("frozen: %v", err)
	}
	p.Thaw()
	if err := hear(conn, 10*time.Second); err != nil {
		t.Errorf("thawed: what was held back did not come: %v", err)
	}
}

func TestCutClosesConnections(t *testing.T) {
	p, conn := dial(t)
	if err := say(t, conn, 10*time.Second); err != nil {
		t.Fatal(err)
	}
	if n := p.Cut(); n != 2 {
		t.Errorf("cut %d connections, want the client's and the server's", n)
	}
	if err := hear(conn, 10*time.Second); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("cut: %v", err)
	}
}

func TestRefuse(t *testing.T) {
	p, conn := dial(t)
	p.Refuse(true)
	if err := hear(conn, 10*time.Second); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("refused: %v", err)
	}
	for _, refused := range []bool{true, false} {
		p.Refuse(refused)
		again, err := net.Dial("tcp", p.Addr())
		if err != nil {
			t.Fatal(err)
		}
		defer again.Close()
		if err := say(t, again, 10*time.Second); (err != nil) != refused {
			t.Errorf("refused: %v, a new connection: %v", refused, err)
		}
	}
}

// TestDrip: 640 bytes take twenty pauses, there and back.
func TestDrip(t *testing.T) {
	p, conn := dial(t)
	const pause = 5 * time.Millisecond
	p.Drip(pause)
	began := time.Now()
	if _, err := conn.Write(make([]byte, 640)); err != nil {
		t.Fatal(err)
	}
	if err := conn.SetReadDeadline(time.Now().Add(10 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(conn, make([]byte, 640)); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(began); took < 10*pause {
		t.Errorf("dripped within %v", took)
	}
}

// TestDelay: an answer takes two delays, and none once there is none.
func TestDelay(t *testing.T) {
	p, conn := dial(t)
	const delay = 50 * time.Millisecond
	for _, by := range []time.Duration{delay, 0} {
		p.Delay(by)
		began := time.Now()
		if err := say(t, conn, 10*time.Second); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took < 2*by {
			t.Errorf("delayed by %v, and answered within %v", by, took)
		}
	}
}
