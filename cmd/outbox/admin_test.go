package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"github.com/outboxrelay/outbox"
	"github.com/outboxrelay/outbox/internal/faultnet"
	"github.com/outboxrelay/outbox/outboxtest"
)

// daemon is a relay of the program that runs in this process and is asked.
type daemon struct {
	base     string
	out, log *lockedBuffer
	stop     func() int
}

func startDaemon(t *testing.T, env []string, args ...string) *daemon {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	d := &daemon{out: &lockedBuffer{}, log: &lockedBuffer{}}
	ended := make(chan int, 1)
	go func() {
		ended <- run(ctx, append([]string{"run", "--admin-listen=127.0.0.1:0", "--log-format=json"}, args...), env, d.out, d.log)
	}()
	d.stop = func() int { cancel(); code := <-ended; ended <- code; return code }
	t.Cleanup(func() { d.stop() })
	eventually(t, "the relay says where it answers", func() bool {
		for line := range strings.Lines(d.log.String()) {
			var said struct{ Msg, Address string }
			if json.Unmarshal([]byte(line), &said) == nil && said.Msg == "answering probes and scrapes" {
				d.base = "http://" + said.Address
			}
		}
		return d.base != ""
	})
	return d
}

func (d *daemon) get(t *testing.T, path string) (status int, body string) {
	t.Helper()
	return get(t, d.base+path)
}

// asker leaves no connection behind.
func asker() *http.Client {
	return &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
}

func get(t *testing.T, url string) (status int, body string) {
	t.Helper()
	answer, err := asker().Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, string(text)
}

func (d *daemon) statusz(t *testing.T) (s statuszJSON) {
	t.Helper()
	_, body := d.get(t, "/statusz")
	if err := json.Unmarshal([]byte(body), &s); err != nil {
		t.Fatalf("%v: %s", err, body)
	}
	return s
}

// TestProbes: alive and ready, with what statusz tells; the address is given back at the end.
func TestProbes(t *testing.T) {
	t.Parallel()
	url := migrated(t)
	d := startDaemon(t, nil, "--to=stdout:", "--database-url="+url, "--sample-interval=1s")
	eventually(t, "it is ready", func() bool { status, _ := d.get(t, "/readyz"); return status == http.StatusOK })
	if status, body := d.get(t, "/livez"); status != http.StatusOK || body != "ok\n" {
		t.Errorf("livez: %d %s", status, body)
	}
	call(t, nil, "publish", "--topic=a", "--database-url="+url).want(t, exitDone)
	eventually(t, "the delivery is counted", func() bool { return d.statusz(t).Counters["delivered"] == 1 })
	eventually(t, "it has looked at the outbox", func() bool { return d.statusz(t).Outbox != nil })
	s := d.statusz(t)
	if !s.Live || !s.Ready || s.Relay == "" || s.LeaseLeftSeconds <= 0 || len(s.Destinations) != 1 || s.Destinations[0].State != "available" ||
		s.Destinations[0].Slots == 0 || s.Schema != "outbox" || s.Outbox.Relays != 1 || len(s.Problems) != 0 {
		t.Errorf("%+v", s)
	}
	if status, _ := d.get(t, "/nothing"); status != http.StatusNotFound {
		t.Errorf("an unknown path is answered with %d", status)
	}
	answer, err := asker().Post(d.base+"/livez", "text/plain", nil)
	if err != nil || answer.StatusCode != http.StatusMethodNotAllowed {
		t.Errorf("POST: %v %v", answer, err)
	}
	answer.Body.Close()
	if code := d.stop(); code != exitDone {
		t.Errorf("exit code %d: %s", code, d.log.String())
	}
	if _, err := asker().Get(d.base + "/livez"); err == nil {
		t.Error("it answers after its end")
	}
	wantIn(t, d.log.String(), `"msg":"relay registered"`, `"lease":"30s"`)
}

// TestProbesWithoutDatabase: without a database a relay is alive and not ready, says why, and has its metrics.
func TestProbesWithoutDatabase(t *testing.T) {
	t.Parallel()
	const nobody = "postgres://user:hush-hush@127.0.0.1:1/shop?sslmode=disable"
	d := startDaemon(t, nil, "--to=amqp://user:hush-hush@127.0.0.1:1", "--database-url="+nobody)
	if status, body := d.get(t, "/livez"); status != http.StatusOK {
		t.Errorf("livez: %d %s", status, body)
	}
	var body string
	eventually(t, "the relay has been started", func() bool {
		status, text := d.get(t, "/readyz")
		if status != http.StatusServiceUnavailable {
			t.Fatalf("readyz: %d", status)
		}
		body = text
		return strings.Contains(body, "has not registered")
	})
	_, statusz := d.get(t, "/statusz")
	wantIn(t, statusz, `"ready":false`, `"outbox":null`)
	_, metrics := d.get(t, "/metrics")
	wantIn(t, metrics, `outbox_delivered_total{destination="default",topic="_other"} 0`)
	for what, text := range map[string]string{"statusz": statusz, "readyz": body, "metrics": metrics, "log": d.log.String()} {
		if strings.Contains(text, "hush-hush") {
			t.Errorf("%s shows a secret: %s", what, text)
		}
	}
}

// TestReadyzTellsTheEnd: a stopping relay is not ready, and answers until it has stopped.
func TestReadyzTellsTheEnd(t *testing.T) {
	t.Parallel()
	store, begun, release := outboxtest.NewStore(), make(chan struct{}), make(chan struct{})
	if _, err := store.Publish(t.Context(), outbox.Message{Topic: "a"}); err != nil {
		t.Fatal(err)
	}
	relay, err := outbox.NewRelay(store, outbox.To(outbox.SinkFunc(func(context.Context, *outbox.Delivery) error {
		close(begun)
		<-release
		return nil
	})), &outbox.Config{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := serveAdmin(l, adminMux(relay, http.NotFoundHandler(), statuszAbout{}), slog.New(slog.DiscardHandler))
	defer server.stop()
	readyz := func() (int, string) { return get(t, "http://"+l.Addr().String()+"/readyz") }
	if status, body := readyz(); status != http.StatusServiceUnavailable || !strings.Contains(body, "not been started") {
		t.Errorf("before the start: %d %s", status, body)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- relay.Run(ctx) }()
	<-begun
	eventually(t, "it is ready", func() bool { status, _ := readyz(); return status == http.StatusOK })
	cancel()
	eventually(t, "it is stopping", func() bool {
		status, body := readyz()
		return status == http.StatusServiceUnavailable && strings.Contains(body, "is stopping")
	})
	close(release)
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if status, body := readyz(); status != http.StatusServiceUnavailable || !strings.Contains(body, "has stopped") {
		t.Errorf("after its end: %d %s", status, body)
	}
}

// TestAdminAddress: off, taken and not one.
func TestAdminAddress(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	url := migrated(t)
	r := call(t, nil, "run", "--to=stdout:", "--database-url="+url, "--admin-listen="+l.Addr().String()).want(t, exitUsage)
	wantIn(t, r.err, "admin.listen", l.Addr().String(), "flag --admin-listen", "in use")
	r = call(t, nil, "config", "--admin-listen=9187").want(t, exitUsage)
	wantIn(t, r.err, `admin.listen "9187"`, "host:port")
	log := &lockedBuffer{}
	got, err := (&config{admin: l.Addr().String()}).listenAdmin(t.Context(), slog.New(slog.NewTextHandler(log, nil)))
	if got != nil || err != nil {
		t.Errorf("a default address that is taken: %v, %v", got, err)
	}
	wantIn(t, log.String(), "set admin.listen")
	got, err = (&config{admin: adminOff}).listenAdmin(t.Context(), slog.New(slog.DiscardHandler))
	if got != nil || err != nil {
		t.Errorf("off: %v, %v", got, err)
	}
}

// TestMetricsAtStart: everything that docs/observability.md lists is there, at zero, and is well named.
func TestMetricsAtStart(t *testing.T) {
	t.Parallel()
	url := migrated(t)
	d := startDaemon(t, nil, "--to=stdout:", "--database-url="+url)
	eventually(t, "it has looked at the outbox", func() bool {
		_, text := d.get(t, "/metrics")
		return strings.Contains(text, "outbox_ready ")
	})
	_, text := d.get(t, "/metrics")
	scraped := parseMetrics(t, text)
	for _, name := range listedMetrics(t) {
		family := scraped[name]
		if family == nil {
			t.Errorf("%s is not there", name)
			continue
		}
		for _, m := range family.Metric {
			v := m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
			if want := map[string]float64{"outbox_relays": 1}[name]; v != want && name != "outbox_sample_age_seconds" {
				t.Errorf("%s is %v, want %v", name, v, want)
			}
		}
	}
	for name := range scraped {
		if strings.HasPrefix(name, "outbox_") && !contains(listedMetrics(t), name) {
			t.Errorf("%s is not in the list", name)
		}
	}
	problems, err := promlint.New(strings.NewReader(text)).Lint()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
}

// TestExportErrorsAreFew: a collector that is away costs a line a minute.
func TestExportErrorsAreFew(t *testing.T) {
	log := &lockedBuffer{}
	e := &exportErrors{log: slog.New(slog.NewTextHandler(log, nil))}
	for range 100 {
		e.Handle(errors.New("connection refused"))
	}
	if n := strings.Count(log.String(), "\n"); n != 1 {
		t.Errorf("%d lines", n)
	}
}

// TestLogOfDeadDatabase: while the database does not answer the calls fail again and again, the log tells it once each,
// readyz says so and livez does not.
func TestLogOfDeadDatabase(t *testing.T) {
	t.Parallel()
	url := migrated(t)
	cfg, err := pgx.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	proxy, err := faultnet.Start(net.JoinHostPort(cfg.Host, strconv.Itoa(int(cfg.Port))))
	if err != nil {
		t.Fatal(err)
	}
	defer proxy.Close()
	through := fmt.Sprintf("postgres://%s@%s/%s?sslmode=disable", cfg.User, proxy.Addr(), cfg.Database)
	d := startDaemon(t, nil, "--to=stdout:", "--database-url="+through, "--lease=3s", "--sample-interval=1s")
	eventually(t, "it is ready", func() bool { status, _ := d.get(t, "/readyz"); return status == http.StatusOK })
	before := strings.Count(d.log.String(), "\n")
	proxy.Refuse(true)
	proxy.Cut()
	const failures = 10
	eventually(t, "calls fail and the lease is lost", func() bool {
		_, text := d.get(t, "/metrics")
		scraped := parseMetrics(t, text)
		return sum(scraped["outbox_store_failures_total"]) >= failures && sum(scraped["outbox_lease_lost_total"]) == 1
	})
	if status, _ := d.get(t, "/livez"); status != http.StatusOK {
		t.Errorf("livez answers %d", status)
	}
	if status, _ := d.get(t, "/readyz"); status != http.StatusServiceUnavailable {
		t.Errorf("readyz answers %d", status)
	}
	// A line for each kind of call, the listener, the lost lease.
	if lines := strings.Count(d.log.String(), "\n") - before; lines > 8 {
		t.Errorf("%d failing calls made %d lines: %s", failures, lines, d.log.String())
	}
	proxy.Refuse(false)
	eventually(t, "it is ready again", func() bool { status, _ := d.get(t, "/readyz"); return status == http.StatusOK })
}

// TestAdminBounds: headers that are too large are refused, and no path takes anything.
func TestAdminBounds(t *testing.T) {
	t.Parallel()
	d := startDaemon(t, nil, "--to=stdout:", "--database-url=postgres://127.0.0.1:1/shop?sslmode=disable")
	ask := func(method, path, header string) int {
		request, err := http.NewRequestWithContext(t.Context(), method, d.base+path, strings.NewReader("x"))
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("X-Large", header)
		answer, err := asker().Do(request)
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
		return answer.StatusCode
	}
	if status := ask(http.MethodGet, "/livez", strings.Repeat("x", 64<<10)); status != http.StatusRequestHeaderFieldsTooLarge {
		t.Errorf("large headers are answered with %d", status)
	}
	for _, path := range []string{"/livez", "/readyz", "/metrics", "/statusz"} {
		for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodDelete, http.MethodPatch} {
			if status := ask(method, path, ""); status != http.StatusMethodNotAllowed {
				t.Errorf("%s %s is answered with %d", method, path, status)
			}
		}
	}
	if status := ask(http.MethodGet, "/livez", "x"); status != http.StatusOK {
		t.Errorf("livez: %d", status)
	}
}
