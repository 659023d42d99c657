package main

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"
)

// TestSlowAdminClients: clients that say nothing, stop in the middle of a request or never read cost the others nothing,
// are cut off, and do not hold the end of the program.
func TestSlowAdminClients(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	t.Parallel()
	d := startDaemon(t, nil, "--to=stdout:", "--database-url=postgres://127.0.0.1:1/shop?sslmode=disable")
	const each = 50
	address := strings.TrimPrefix(d.base, "http://")
	dial := func(say string) net.Conn {
		conn, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		if _, err := io.WriteString(conn, say); err != nil {
			t.Fatal(err)
		}
		return conn
	}
	const scrape = "GET /metrics HTTP/1.1\r\nHost: outbox\r\n\r\n"
	var silent []net.Conn
	for range each {
		silent = append(silent, dial(""), dial("GET /metrics HTTP/1.1\r\nHost: out"))
		dial(strings.Repeat(scrape, 200)) // and reads none of the answers
	}
	for _, path := range []string{"/livez", "/statusz"} {
		for range 20 {
			if status, body := d.get(t, path); status != http.StatusOK {
				t.Fatalf("%s beside slow clients: %d %s", path, status, body)
			}
		}
	}
	eventually(t, "a scrape is answered", func() bool { status, _ := d.get(t, "/metrics"); return status == http.StatusOK })
	for i, conn := range silent {
		if err := conn.SetReadDeadline(time.Now().Add(20 * time.Second)); err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, conn); errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatalf("client %d, which sends no request, is still served", i)
		}
	}
	for range each { // new ones, since those are gone
		dial("")
		dial("GET /")
	}
	ended := make(chan int, 1)
	go func() { ended <- d.stop() }()
	select {
	case code := <-ended:
		if code != exitDone {
			t.Errorf("exit code %d: %s", code, d.log.String())
		}
	case <-time.After(20 * time.Second):
		t.Fatal("slow clients hold the end of the program")
	}
	if lines := strings.Count(d.log.String(), "\n"); lines > 20 {
		t.Errorf("%d slow clients made %d lines of log: %s", 5*each, lines, d.log.String())
	}
}

// stuckWriter is a client that reads nothing before it is released.
type stuckWriter struct {
	*httptest.ResponseRecorder
	release chan struct{}
}

func (w *stuckWriter) Write(p []byte) (int, error) {
	<-w.release
	return w.ResponseRecorder.Write(p)
}

// TestScrapesAreWhole: making an answer does not wait for its client, who gets it as it was made.
func TestScrapesAreWhole(t *testing.T) {
	made, sent := make(chan struct{}), make(chan struct{})
	w := &stuckWriter{httptest.NewRecorder(), make(chan struct{})}
	go func() {
		defer close(sent)
		whole(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			defer close(made)
			w.Header().Set("Content-Type", "text/x")
			w.WriteHeader(http.StatusServiceUnavailable)
			fmt.Fprint(w, "one ")
			fmt.Fprint(w, "two")
		})).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	}()
	<-made
	close(w.release)
	<-sent
	if w.Code != http.StatusServiceUnavailable || w.Header().Get("Content-Type") != "text/x" || w.Body.String() != "one two" {
		t.Errorf("the client got %d %v %q", w.Code, w.Header(), w.Body.String())
	}
}

// TestStatuszShowsNoSecret: whatever a destination's URL or the database's holds, its fault tells of it without the secret.
func TestStatuszShowsNoSecret(t *testing.T) {
	const secret, escaped = "hush/hush?", "hush%2Fhush%3F"
	url := migrated(t) + "&password=" + escaped
	file := configFile(t, fmt.Sprintf(`
destinations:
  amqp: {url: "amqp://user:%[1]s@127.0.0.1:1/"}
  nats: {url: "nats://user:%[1]s@127.0.0.1:1", stream: ORDERS}
  token: {url: "nats://%[1]s@127.0.0.1:1", stream: ORDERS}
routes:
  - {topics: ["amqp.>"], to: amqp}
  - {topics: ["nats.>"], to: nats}
  - {topics: [">"], to: token}
`, escaped))
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://user:"+escaped+"@127.0.0.1:1")
	t.Setenv("OTEL_EXPORTER_OTLP_HEADERS", "authorization="+escaped)
	t.Setenv("OTEL_METRIC_EXPORT_INTERVAL", "100")
	d := startDaemon(t, nil, "--config="+file, "--database-url="+url)
	db := "--database-url=" + url
	for _, topic := range []string{"amqp.a", "nats.a", "other"} {
		call(t, nil, "publish", "--topic="+topic, db).want(t, exitDone)
	}
	eventually(t, "all destinations have a fault", func() bool {
		faulty := 0
		for _, l := range d.statusz(t).Destinations {
			if l.Reason != "" {
				faulty++
			}
		}
		return faulty == 3
	})
	eventually(t, "the failing export is told", func() bool { return strings.Contains(d.log.String(), "could not be exported") })
	eventually(t, "others see the faults", func() bool {
		return strings.Count(call(t, nil, "status", db).out, "unavailable")+strings.Count(call(t, nil, "status", db).out, "misconfigured") >= 3
	})
	for what, text := range map[string]string{"log": d.log.String(), "status": call(t, nil, "status", db).out, "relays": call(t, nil, "relays", "--json", db).out} {
		wantNoSecret(t, what, text, secret, escaped)
	}
	for _, path := range []string{"/statusz", "/readyz", "/livez", "/metrics"} {
		_, body := d.get(t, path)
		wantNoSecret(t, path, body, secret, escaped)
	}
}

func wantNoSecret(t *testing.T, what, text string, secrets ...string) {
	t.Helper()
	for _, s := range secrets {
		if strings.Contains(text, s) {
			t.Errorf("%s shows %q: %s", what, s, text)
		}
	}
}
