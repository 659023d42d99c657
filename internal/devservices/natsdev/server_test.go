package natsdev

import (
	"context"
	"errors"
	"net"
	"os"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/goleak"

	"github.com/outboxrelay/outbox/internal/devservices"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func start(t *testing.T) *Server {
	t.Helper()
	s, err := Start(Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		if _, err := os.Stat(s.Dir()); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("the store is still there: %v", err)
		}
	})
	return s
}

func connect(t *testing.T, s *Server, options ...nats.Option) *nats.Conn {
	t.Helper()
	conn, err := nats.Connect(s.URL(), options...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		conn.Close()
		for !conn.IsClosed() {
			time.Sleep(time.Millisecond)
		}
	})
	return conn
}

// TestRestart: streams and messages outlive the server, on the same port.
func TestRestart(t *testing.T) {
	s := start(t)
	js, err := jetstream.New(connect(t, s, nats.MaxReconnects(-1), nats.ReconnectWait(10*time.Millisecond)))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "S", Subjects: []string{"a"}}); err != nil {
		t.Fatal(err)
	}
	if _, err := js.Publish(t.Context(), "a", []byte("1")); err != nil {
		t.Fatal(err)
	}
	before := s.URL()
	if err := s.Restart(); err != nil {
		t.Fatal(err)
	}
	if err := s.Start(); err == nil {
		t.Error("started twice")
	}
	// A request may be lost with the connection that the client still thinks it has.
	stream, err := js.Stream(t.Context(), "S")
	for begin := time.Now(); errors.Is(err, context.DeadlineExceeded) && time.Since(begin) < time.Minute; {
		stream, err = js.Stream(t.Context(), "S")
	}
	if err != nil {
		t.Fatal(err)
	}
	if n := stream.CachedInfo().State.Msgs; n != 1 || s.URL() != before {
		t.Errorf("%d messages at %s, before it was %s", n, s.URL(), before)
	}
}

func TestTerminate(t *testing.T) {
	s := start(t)
	gone := make(chan error, 1)
	connect(t, s, nats.NoReconnect(), nats.DisconnectErrHandler(func(_ *nats.Conn, err error) { gone <- err }))
	if n, err := s.Terminate(); n != 1 || err != nil {
		t.Fatalf("%d terminated, %v", n, err)
	}
	<-gone
	s.Stop()
	if _, err := s.Terminate(); err == nil {
		t.Error("a stopped server terminated something")
	}
}

// TestPortTaken: a port that was taken meanwhile is replaced by another one.
func TestPortTaken(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	s := start(t)
	s.Stop()
	taken, calls := l.Addr().(*net.TCPAddr).Port, 0
	err = s.listen(func() (int, error) {
		if calls++; calls == 1 {
			return taken, nil
		}
		return devservices.FreePort()
	})
	if err != nil || s.Port() == taken || calls != 2 {
		t.Errorf("port %d after %d calls, %v", s.Port(), calls, err)
	}
}
