package main

import (
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	collectmetrics "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	collecttraces "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	metrics "go.opentelemetry.io/proto/otlp/metrics/v1"
	"google.golang.org/protobuf/proto"
)

// collector takes what OpenTelemetry exports by HTTP, and keeps it.
type collector struct {
	*httptest.Server

	mu       sync.Mutex
	counts   map[string]float64  // sums and gauges as they came last, by name{attributes}
	parents  map[string]string   // of spans, by name: trace/parent
	resource map[string]string   // attributes
	headers  map[string]struct{} // authorization
	refused  []error
}

func newCollector(t *testing.T) *collector {
	t.Helper()
	c := &collector{counts: map[string]float64{}, parents: map[string]string{}, resource: map[string]string{}, headers: map[string]struct{}{}}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/metrics", func(w http.ResponseWriter, r *http.Request) {
		c.take(w, r, &collectmetrics.ExportMetricsServiceRequest{}, &collectmetrics.ExportMetricsServiceResponse{})
	})
	mux.HandleFunc("POST /v1/traces", func(w http.ResponseWriter, r *http.Request) {
		c.take(w, r, &collecttraces.ExportTraceServiceRequest{}, &collecttraces.ExportTraceServiceResponse{})
	})
	c.Server = httptest.NewServer(mux)
	t.Cleanup(func() {
		c.Close()
		for _, err := range c.refused {
			t.Error(err)
		}
	})
	return c
}

func (c *collector) take(w http.ResponseWriter, r *http.Request, request, answer proto.Message) {
	c.mu.Lock()
	defer c.mu.Unlock()
	body, err := io.ReadAll(r.Body)
	if err == nil {
		err = proto.Unmarshal(body, request)
	}
	if err != nil {
		c.refused = append(c.refused, fmt.Errorf("%s: %w", r.URL.Path, err))
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	c.headers[r.Header.Get("Authorization")] = struct{}{}
	switch m := request.(type) {
	case *collectmetrics.ExportMetricsServiceRequest:
		c.keepMetrics(m)
	case *collecttraces.ExportTraceServiceRequest:
		c.keepSpans(m)
	}
	text, err := proto.Marshal(answer)
	if err != nil {
		c.refused = append(c.refused, err)
	}
	w.Header().Set("Content-Type", "application/x-protobuf")
	_, _ = w.Write(text)
}

func (c *collector) keepMetrics(m *collectmetrics.ExportMetricsServiceRequest) {
	for _, rm := range m.ResourceMetrics {
		for _, kv := range rm.Resource.Attributes {
			c.resource[kv.Key] = kv.Value.GetStringValue()
		}
		for _, sm := range rm.ScopeMetrics {
			for _, m := range sm.Metrics {
				points := m.GetGauge().GetDataPoints()
				if m.GetSum() != nil {
					points = m.GetSum().DataPoints
				}
				for _, p := range points {
					c.counts[m.Name+attributes(p.Attributes)] = pointValue(p)
				}
				for _, p := range m.GetHistogram().GetDataPoints() {
					c.counts[m.Name+attributes(p.Attributes)] = float64(p.Count)
				}
			}
		}
	}
}

func pointValue(p *metrics.NumberDataPoint) float64 {
	if n, ok := p.Value.(*metrics.NumberDataPoint_AsInt); ok {
		return float64(n.AsInt)
	}
	return p.GetAsDouble()
}

// attributes are sorted by their senders.
func attributes(list []*common.KeyValue) string {
	words := make([]string, len(list))
	for i, kv := range list {
		words[i] = kv.Key + "=" + kv.Value.GetStringValue()
	}
	return "{" + strings.Join(words, ",") + "}"
}

func (c *collector) keepSpans(m *collecttraces.ExportTraceServiceRequest) {
	for _, rs := range m.ResourceSpans {
		for _, ss := range rs.ScopeSpans {
			for _, s := range ss.Spans {
				c.parents[s.Name] = hex.EncodeToString(s.TraceId) + "/" + hex.EncodeToString(s.ParentSpanId)
			}
		}
	}
}

// count is nan-free: -1 when nothing of that name has come.
func (c *collector) count(name string) float64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	if n, ok := c.counts[name]; ok {
		return n
	}
	return -1
}

func (c *collector) parent(span string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.parents[span]
}

// exportTo are the standard variables that make a program export.
func exportTo(endpoint, every string) (env []string) {
	return []string{"OTEL_EXPORTER_OTLP_ENDPOINT=" + endpoint, "OTEL_METRIC_EXPORT_INTERVAL=" + every, "OTEL_BSP_SCHEDULE_DELAY=" + every}
}

const (
	otlpTrace  = "0af7651916cd43dd8448eb211c80319c"
	otlpCaller = "b7ad6b7169203331"
	hour       = "3600000" // milliseconds
)

// publishTraced publishes as an application in another language does.
func publishTraced(t *testing.T, url, topic string) {
	t.Helper()
	execSQL(t, connect(t, url), `select outbox.publish(topic => $1, payload => 'x', headers => jsonb_build_object('traceparent', $2::text))`,
		topic, "00-"+otlpTrace+"-"+otlpCaller+"-01")
}

// TestOTLP: a relay that is a process of its own exports instruments and spans where the standard variables say, with what
// they say of itself; no address is listened on for it.
func TestOTLP(t *testing.T) {
	t.Parallel()
	url, c := migrated(t), newCollector(t)
	env := append(exportTo(c.URL, "100"), "OTEL_SERVICE_NAME=shop-outbox", "OTEL_RESOURCE_ATTRIBUTES=deployment.environment.name=test",
		"OTEL_EXPORTER_OTLP_HEADERS=authorization=hush-hush")
	out := &lockedBuffer{}
	p := startIn(t, env, nil, out, "run", "--to=stdout:", "--database-url="+url, "--sample-interval=1s")
	eventually(t, "the gauges of the outbox are exported", func() bool { return c.count("outbox.ready{}") == 0 && c.count("outbox.relays{}") == 1 })
	if n := c.count("outbox.delivered{destination=default,topic=_other}"); n != 0 {
		t.Errorf("before anything is delivered its counter is %v", n)
	}
	publishTraced(t, url, "orders.created")
	eventually(t, "the delivery is exported", func() bool {
		return c.count("outbox.delivered{destination=default,topic=orders.created}") == 1 && c.parent("deliver orders.created") != ""
	})
	if got := c.parent("deliver orders.created"); got != otlpTrace+"/"+otlpCaller {
		t.Errorf("the delivery is below %s", got)
	}
	if n := c.count("outbox.handler.duration{destination=default,topic=orders.created}"); n != 1 {
		t.Errorf("%v attempts", n)
	}
	c.mu.Lock()
	if c.resource["service.name"] != "shop-outbox" || c.resource["deployment.environment.name"] != "test" || c.resource["service.version"] == "" ||
		!strings.HasSuffix(c.resource["service.instance.id"], fmt.Sprintf(":%d", p.Process.Pid)) {
		t.Errorf("it says of itself %v", c.resource)
	}
	if _, ok := c.headers["hush-hush"]; !ok || len(c.headers) != 1 {
		t.Errorf("the collector is called with %v", c.headers)
	}
	c.mu.Unlock()
	p.signal(t, syscall.SIGTERM)
	p.wantExit(t, exitDone)
	if log := p.log.String(); strings.Contains(log, "hush-hush") || strings.Contains(log, "could not be exported") {
		t.Errorf("the log: %s", log)
	}
}

// TestOTLPFlush: what was not exported when a relay is stopped is exported then.
func TestOTLPFlush(t *testing.T) {
	t.Parallel()
	url, c := migrated(t), newCollector(t)
	out := &lockedBuffer{}
	p := startIn(t, exportTo(c.URL, hour), nil, out, "run", "--to=stdout:", "--database-url="+url)
	publishTraced(t, url, "orders.created")
	eventually(t, "the message is delivered", func() bool { return strings.Contains(out.String(), "orders.created") })
	if n := c.count("outbox.delivered{destination=default,topic=orders.created}"); n != -1 || c.parent("deliver orders.created") != "" {
		t.Error("it was exported before")
	}
	p.signal(t, syscall.SIGTERM)
	p.wantExit(t, exitDone)
	if n := c.count("outbox.delivered{destination=default,topic=orders.created}"); n != 1 {
		t.Errorf("at the end %v deliveries are exported", n)
	}
	if got := c.parent("deliver orders.created"); got != otlpTrace+"/"+otlpCaller {
		t.Errorf("at the end the delivery is below %q", got)
	}
}

// TestOTLPCollectorAway: a collector that is away, ill or silent costs a line a minute, no message, and seconds of the stop.
func TestOTLPCollectorAway(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	t.Parallel()
	const enough = 20 // exports
	for name, answer := range map[string]func(w http.ResponseWriter, silence <-chan struct{}){
		"away": nil,
		"ill": func(w http.ResponseWriter, _ <-chan struct{}) {
			http.Error(w, "disk full", http.StatusInternalServerError)
		},
		"silent": func(_ http.ResponseWriter, silence <-chan struct{}) { <-silence },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url, silence := migrated(t), make(chan struct{})
			var asked atomic.Int64
			endpoint := "http://127.0.0.1:1"
			if answer != nil {
				server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					asked.Add(1)
					_, _ = io.Copy(io.Discard, r.Body)
					answer(w, silence)
				}))
				defer server.Close()
				endpoint = server.URL
			}
			defer close(silence)
			env := exportTo(endpoint, "50")
			for _, limit := range []string{"OTEL_EXPORTER_OTLP_TIMEOUT", "OTEL_METRIC_EXPORT_TIMEOUT", "OTEL_BSP_EXPORT_TIMEOUT"} {
				env = append(env, limit+"=1000")
			}
			out := &lockedBuffer{}
			p := startIn(t, env, nil, out, "run", "--to=stdout:", "--database-url="+url)
			conn := connect(t, url)
			published := 0
			eventually(t, "deliveries go on while exports fail", func() bool {
				execSQL(t, conn, "select outbox.publish(topic => 'a', payload => 'x')")
				published++
				tried := asked.Load() >= enough || name == "silent" && asked.Load() >= 3 || answer == nil
				return tried && published >= 100 && strings.Contains(p.log.String(), "could not be exported")
			})
			eventually(t, "all is delivered", func() bool { return strings.Count(out.String(), `"topic":"a"`) == published })
			p.signal(t, syscall.SIGTERM)
			p.wantExit(t, exitDone)
			log := p.log.String()
			if n := strings.Count(log, "telemetry could not be exported"); n > 2 { // and one at the end
				t.Errorf("%d lines of failed exports: %s", n, log)
			}
			if n := strings.Count(log, "\n"); n > 12 {
				t.Errorf("the log has %d lines: %s", n, log)
			}
		})
	}
}
