package rabbitsink

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"io"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/outboxrelay/outbox"
)

// TestServerRestart: the server is killed under load. Whatever was acknowledged is stored, everything gets there
// in the end, and confirms are on again.
func TestServerRestart(t *testing.T) {
	if testing.Short() {
		t.Skip("restarts a node, which takes seconds")
	}
	server := rabbit.Private(t)
	h := newHarness(t, Config{})
	if err := server.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	sink := open(t, server.URL(), Config{Exchange: h.exchange})
	var mu sync.Mutex
	acked := map[string]bool{}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	stop, delivered := make(chan struct{}), make(chan struct{}, 1)
	var senders sync.WaitGroup
	for range 3 {
		senders.Go(func() {
			for !isClosed(stop) {
				batch := make([]*outbox.Delivery, 40)
				for i := range batch {
					batch[i] = message("a", "x")
				}
				for len(batch) > 0 && ctx.Err() == nil {
					var rest []*outbox.Delivery
					for i, err := range sendWith(ctx, sink, batch...) {
						if err != nil {
							mustBe(t, "unavailable", err)
							rest = append(rest, batch[i])
							continue
						}
						mu.Lock()
						acked[batch[i].ID.String()] = true
						mu.Unlock()
					}
					if batch = rest; len(rest) > 0 {
						time.Sleep(5 * time.Millisecond) // as the relay's breaker would
					}
				}
				select {
				case delivered <- struct{}{}:
				default:
				}
			}
		})
	}
	<-delivered
	if err := server.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := server.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the first may be of before
		<-delivered
	}
	close(stop)
	senders.Wait()
	stored := map[string]bool{}
	for _, m := range arrived(t, h) {
		stored[m.MessageId] = true
	}
	if len(acked) == 0 {
		t.Fatal("nothing was delivered")
	}
	for id := range acked {
		if !stored[id] {
			t.Errorf("message %s was acknowledged and is lost", id)
		}
	}
}

func isClosed(c chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// TestMemoryAlarm: the destination is unavailable, not the messages' fault, and is back by itself.
func TestMemoryAlarm(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for the alarm")
	}
	server := rabbit.Private(t)
	h := newHarness(t, Config{ConfirmTimeout: 20 * time.Second})
	mustSend(t, h.sink, message("a", "before"))
	if err := server.Alarm(t.Context(), true); err != nil {
		t.Fatal(err)
	}
	cleared := false
	t.Cleanup(func() {
		if !cleared {
			_ = server.Alarm(context.Background(), false)
		}
	})
	ds := make([]*outbox.Delivery, 50)
	for i := range ds {
		ds[i] = message("a", "during")
	}
	began := time.Now()
	for range 2 { // when it is told, and when it is known
		for _, err := range send(t, h.sink, ds...) {
			mustBe(t, "unavailable", err, "takes no messages now")
		}
	}
	if took := time.Since(began); took > 15*time.Second {
		t.Errorf("the alarm was noticed by a time-out only, after %v", took)
	}
	if err := h.sink.Ping(t.Context()); err == nil {
		t.Error("the ping says nothing")
	}
	if err := server.Alarm(t.Context(), false); err != nil {
		t.Fatal(err)
	}
	cleared = true
	eventually(t, "it is told that the alarm is over", func() bool { return h.sink.Ping(t.Context()) == nil })
	mustSend(t, h.sink, message("a", "after"))
}

// TestHungServer: a server whose process is stopped keeps connections and answers nothing.
func TestHungServer(t *testing.T) {
	server := rabbit.Private(t)
	h := newHarness(t, Config{ConfirmTimeout: 300 * time.Millisecond, ConnectTimeout: 300 * time.Millisecond})
	mustSend(t, h.sink, message("a", "before"))
	if err := server.Pause(); err != nil {
		t.Fatal(err)
	}
	defer server.Resume() // again, if the test ends early
	for _, err := range send(t, h.sink, message("a", "x"), message("b", "x")) {
		mustBe(t, "unavailable", err, "no confirmation within 300ms", "no answer within")
	}
	mustBe(t, "unavailable", send(t, h.sink, message("a", "x"))[0], "not connected")
	if err := server.Resume(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it answers again", func() bool { return h.sink.Ping(t.Context()) == nil })
	mustSend(t, h.sink, message("a", "after"))
}

// TestHalfOpen: a firewall forgets the connection. A batch too large for all buffers on the way blocks the writer too.
func TestHalfOpen(t *testing.T) {
	t.Parallel()
	h := newHarness(t, Config{ConfirmTimeout: 300 * time.Millisecond, ConnectTimeout: time.Second})
	mustSend(t, h.sink, message("a", "before"))
	h.proxy.Freeze()
	ds := make([]*outbox.Delivery, 30)
	for i := range ds {
		ds[i] = message("a", "x")
		ds[i].Payload = make([]byte, 1<<20)
	}
	for _, err := range send(t, h.sink, ds...) {
		mustBe(t, "unavailable", err)
	}
	h.proxy.Cut()
	h.proxy.Thaw()
	eventually(t, "there again", func() bool { return send(t, h.sink, message("a", "after"))[0] == nil })
}

// TestCancelledWhileHung: a call returns when its context ends, whatever hangs: the write, the answer or the connect.
func TestCancelledWhileHung(t *testing.T) {
	t.Parallel()
	h := newHarness(t, Config{ConfirmTimeout: time.Minute, ConnectTimeout: time.Minute})
	big := message("a", "x")
	big.Payload = make([]byte, 3<<20)
	var blocked []*outbox.Delivery
	for range 10 {
		blocked = append(blocked, big)
	}
	for name, ds := range map[string][]*outbox.Delivery{"answer": {message("a", "x")}, "write": blocked} {
		t.Run(name, func(t *testing.T) {
			h.proxy.Thaw()
			sink := open(t, h.server.Through(h.proxy.Addr()), Config{Exchange: h.exchange, ConfirmTimeout: time.Minute, ConnectTimeout: time.Minute})
			mustSend(t, sink, message("a", "before"))
			h.proxy.Freeze()
			cancelled(t, sink, ds...)
		})
	}
	t.Run("connect", func(t *testing.T) { cancelled(t, h.sink, message("a", "x")) })
	h.proxy.Cut()
	h.proxy.Thaw()
}

func cancelled(t *testing.T, sink *Sink, ds ...*outbox.Delivery) {
	t.Helper()
	ctx, cancel := context.WithTimeoutCause(t.Context(), 100*time.Millisecond, outbox.ErrShutdown)
	defer cancel()
	began := time.Now()
	for _, err := range sendWith(ctx, sink, ds...) {
		if !errors.Is(err, outbox.ErrShutdown) {
			t.Errorf("error %v", err)
		}
	}
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("returned after %v", took)
	}
}

// TestSlowNetwork: what drips gets there; a write that gets on is no hang.
func TestSlowNetwork(t *testing.T) {
	t.Parallel()
	h := newHarness(t, Config{ConfirmTimeout: 20 * time.Second})
	h.proxy.Drip(200 * time.Microsecond)
	ds := make([]*outbox.Delivery, 20)
	for i := range ds {
		ds[i] = message("a", "x")
		ds[i].Payload = make([]byte, 1000)
	}
	mustSend(t, h.sink, ds...)
	if n := len(arrived(t, h)); n != len(ds) {
		t.Errorf("%d of %d", n, len(ds))
	}
}

// TestCloseUnderLoad: calls under way end, as unavailable.
func TestCloseUnderLoad(t *testing.T) {
	t.Parallel()
	h := newHarness(t, Config{})
	mustSend(t, h.sink, message("a", "before"))
	h.proxy.Freeze()
	results := make(chan error)
	go func() { results <- sendWith(t.Context(), h.sink, message("a", "x"))[0] }()
	eventually(t, "it is under way", func() bool { return len(h.sink.slots) == 1 })
	h.sink.Close()
	mustBe(t, "unavailable", <-results, errClosed.Error())
	h.proxy.Thaw()
}

// TestURLFunc: the URL is asked for at each connect, and a node that is away is passed over.
func TestURLFunc(t *testing.T) {
	t.Parallel()
	h := newHarness(t, Config{})
	good := h.server.Through(h.proxy.Addr())
	current := "amqp://u:wrong@" + h.proxy.Addr()
	sink := open(t, "", Config{Exchange: h.exchange, URLFunc: func(context.Context) (string, error) {
		if current == "" {
			return "", errors.New("the file is gone")
		}
		return current, nil
	}})
	mustBe(t, "unavailable", send(t, sink, message("a", "x"))[0], "login is refused")
	current = "amqp://u:p@127.0.0.1:1, " + good
	eventually(t, "with the new password", func() bool { return send(t, sink, message("a", "x"))[0] == nil })
	h.proxy.Cut()
	current = ""
	eventually(t, "it is told", func() bool { return sink.Ping(t.Context()) != nil })
	if err := sink.Ping(t.Context()); err == nil || err.Error() != "URL of RabbitMQ: the file is gone" {
		t.Error(err)
	}
}

// TestTLS: the authorities' file is the URL's, and read at each connect.
func TestTLS(t *testing.T) {
	t.Parallel()
	h := newHarness(t, Config{})
	certificate, authority := selfSigned(t)
	listener, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{certificate}})
	if err != nil {
		t.Fatal(err)
	}
	var conns sync.WaitGroup
	conns.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			conns.Go(func() { join(client, h.proxy.Addr()) })
		}
	})
	file := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	url := "amqps" + h.server.Through(listener.Addr().String())[len("amqp"):] + "?cacertfile=" + file
	sink := open(t, url, Config{Exchange: h.exchange})
	mustBe(t, "unavailable", send(t, sink, message("a", "x"))[0], "certificate is not trusted")
	_, other := selfSigned(t)
	if err := os.WriteFile(file, other, 0o600); err != nil {
		t.Fatal(err)
	}
	wrong := open(t, url, Config{Exchange: h.exchange})
	mustBe(t, "unavailable", send(t, wrong, message("a", "x"))[0], "certificate is not trusted", "unknown authority")
	if err := os.WriteFile(file, authority, 0o600); err != nil {
		t.Fatal(err)
	}
	elsewhere := open(t, strings.Replace(url, "127.0.0.1", "localhost", 1), Config{Exchange: h.exchange})
	mustBe(t, "unavailable", send(t, elsewhere, message("a", "x"))[0], "certificate is not trusted", "localhost")
	eventually(t, "with the right authority", func() bool { return sink.Ping(t.Context()) == nil })
	mustSend(t, sink, message("a", "x"))
	sink.Close()
	listener.Close()
	conns.Wait()
}

func join(client net.Conn, addr string) {
	defer client.Close()
	server, err := net.Dial("tcp", addr)
	if err != nil {
		return
	}
	defer server.Close()
	var both sync.WaitGroup
	both.Go(func() { defer server.Close(); _, _ = io.Copy(server, client) })
	both.Go(func() { defer client.Close(); _, _ = io.Copy(client, server) })
	both.Wait()
}

func selfSigned(t *testing.T) (tls.Certificate, []byte) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}
