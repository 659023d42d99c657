package main

import (
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outboxrelay/outbox/internal/devservices/pgdev"
	"github.com/outboxrelay/outbox/internal/devservices/pgtest"
	"github.com/outboxrelay/outbox/internal/faultnet"
)

// proxied is a way to the database that can be disturbed.
func proxied(t *testing.T, url string) (*faultnet.Proxy, string) {
	t.Helper()
	cfg, err := pgx.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	proxy, err := faultnet.Start(net.JoinHostPort(cfg.Host, strconv.Itoa(int(cfg.Port))))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := proxy.Close(); err != nil {
			t.Error(err)
		}
	})
	return proxy, fmt.Sprintf("postgres://%s@%s/%s?sslmode=disable", cfg.User, proxy.Addr(), cfg.Database)
}

// TestFrozenDatabase: a database that takes connections and says nothing makes the relay not ready, in memory and in time,
// and costs few lines; the relay stays alive. Who asks the database itself is told that it does not answer.
func TestFrozenDatabase(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	t.Parallel()
	proxy, through := proxied(t, migrated(t))
	d := startDaemon(t, nil, "--to=stdout:", "--database-url="+through, "--lease=3s", "--sample-interval=1s")
	eventually(t, "it is ready", func() bool { status, _ := d.get(t, "/readyz"); return status == http.StatusOK })
	pictures, top := &lockedBuffer{}, make(chan int, 1)
	go func() {
		top <- run(t.Context(), []string{"top", "--json", "--interval=1s", "--database-url=" + through}, nil, pictures, pictures)
	}()
	eventually(t, "top shows the outbox", func() bool { return strings.Contains(pictures.String(), `"relays_live":1`) })
	before := strings.Count(d.log.String(), "\n")
	proxy.Freeze()
	eventually(t, "it is not ready", func() bool { status, _ := d.get(t, "/readyz"); return status == http.StatusServiceUnavailable })
	eventually(t, "calls fail", func() bool {
		_, text := d.get(t, "/metrics")
		return sum(parseMetrics(t, text)["outbox_store_failures_total"]) >= 5
	})
	if status, body := d.get(t, "/livez"); status != http.StatusOK {
		t.Errorf("livez answers %d %s", status, body)
	}
	if s := d.statusz(t); s.Ready || len(s.Problems) == 0 {
		t.Errorf("statusz tells %+v", s)
	}
	if lines := strings.Count(d.log.String(), "\n") - before; lines > 8 {
		t.Errorf("%d lines: %s", lines, d.log.String())
	}
	ended := make(chan result, 1)
	go func() { ended <- call(t, nil, "health", "--any", "--database-url="+through+"&connect_timeout=1") }()
	select {
	case r := <-ended:
		r.want(t, exitFailed)
	case <-time.After(20 * time.Second):
		t.Error("health waits for a database that says nothing")
		defer func() { <-ended }()
	}
	if code := <-top; code != exitFailed || !strings.Contains(pictures.String(), "has not answered within") {
		t.Errorf("top ended with %d: %s", code, pictures.String())
	}
	proxy.Thaw()
	eventually(t, "it is ready again", func() bool { status, _ := d.get(t, "/readyz"); return status == http.StatusOK })
}

// TestHostileTopics: rows whose topics no publisher may write have a bounded number of series, in a text that can be read.
func TestHostileTopics(t *testing.T) {
	t.Parallel()
	url := migrated(t)
	conn := connect(t, url)
	execSQL(t, conn, "alter table outbox.message drop constraint message_topic")
	const topics = 400
	execSQL(t, conn, `insert into outbox.message (id, topic, payload)
		select gen_random_uuid(), 'evil"} 1' || chr(10) || 'forged_metric{a="\' || g, '' from generate_series(1, $1::int) g`, topics)
	d := startDaemon(t, nil, "--to=stdout:", "--database-url="+url)
	handled := func(scraped string) (n float64) {
		families := parseMetrics(t, scraped)
		return sum(families["outbox_delivered_total"]) + sum(families["outbox_dead_lettered_total"]) + sum(families["outbox_retried_total"])
	}
	var text string
	eventually(t, "each is delivered or refused", func() bool { _, text = d.get(t, "/metrics"); return handled(text) >= topics })
	seen := map[string]bool{}
	for name, family := range parseMetrics(t, text) {
		if strings.HasPrefix(name, "forged") {
			t.Errorf("there is %s", name)
		}
		for _, m := range family.Metric {
			for _, l := range m.Label {
				if l.GetName() == "topic" {
					seen[l.GetValue()] = true
				}
			}
		}
	}
	if len(seen) != 201 || !seen["_other"] {
		t.Errorf("%d values of topic", len(seen))
	}
}

// TestTwoWatchedRelays: what each has done is its own, what there is comes from one of them, and from the other when that ends.
func TestTwoWatchedRelays(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	t.Parallel()
	url := migrated(t)
	args := []string{"--to=stdout:", "--database-url=" + url, "--sample-interval=1s", "--slots=5"}
	both := []*daemon{startDaemon(t, nil, args...), startDaemon(t, nil, args...)}
	for _, d := range both {
		eventually(t, "it is ready", func() bool { status, _ := d.get(t, "/readyz"); return status == http.StatusOK })
	}
	const n = 200
	execSQL(t, connect(t, url), "select outbox.publish(topic => 'a', payload => 'x') from generate_series(1, $1::int)", n)
	scrape := func(d *daemon, name string) (float64, bool) {
		_, text := d.get(t, "/metrics")
		family, ok := parseMetrics(t, text)[name]
		return sum(family), ok
	}
	eventually(t, "each delivery is counted once", func() bool {
		first, _ := scrape(both[0], "outbox_delivered_total")
		second, _ := scrape(both[1], "outbox_delivered_total")
		return first+second == n
	})
	looks := func(d *daemon) bool { _, ok := scrape(d, "outbox_ready"); return ok }
	eventually(t, "one of them looks", func() bool { return looks(both[0]) != looks(both[1]) })
	one, other := both[0], both[1]
	if looks(other) {
		one, other = other, one
	}
	if code := one.stop(); code != exitDone {
		t.Errorf("exit code %d", code)
	}
	eventually(t, "the other one looks", func() bool {
		relays, ok := scrape(other, "outbox_relays")
		return ok && relays == 1
	})
}

// TestMetricsOfStream: who streams, who stands by, and who would like to.
func TestMetricsOfStream(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	t.Parallel()
	url := migrated(t)
	args := []string{"--to=stdout:", "--engine=wal", "--notify=off", "--sample-interval=1s"}
	first := startDaemon(t, nil, append(args, "--database-url="+url)...)
	first.want(t, "the first streams", map[string]float64{"outbox_streaming": 1, "outbox_stream_failing": 0, "outbox_stream_buffered": 0})
	eventually(t, "lag and slot are told", func() bool {
		_, text := first.get(t, "/metrics")
		scraped := parseMetrics(t, text)
		return sum(scraped["outbox_stream_lag_seconds"]) > 0 && sum(scraped["outbox_slot_retained_bytes"]) > 0
	})
	if s := first.statusz(t); s.Streaming == nil || !s.Streaming.On || s.Outbox == nil || s.Outbox.SlotRetainedBytes == 0 {
		t.Errorf("statusz tells %+v", s)
	}
	second := startDaemon(t, nil, append(args, "--database-url="+url)...)
	eventually(t, "the second is ready", func() bool { status, _ := second.get(t, "/readyz"); return status == http.StatusOK })
	second.want(t, "the second stands by", map[string]float64{"outbox_streaming": 0, "outbox_stream_failing": 0, "outbox_stream_lag_seconds": 0})
	call(t, nil, "publish", "--topic=a", "--database-url="+url).want(t, exitDone)
	eventually(t, "the message is delivered", func() bool {
		return strings.Contains(first.out.String(), `"topic":"a"`) || strings.Contains(second.out.String(), `"topic":"a"`)
	})
	first.stop()
	second.want(t, "the second takes over", map[string]float64{"outbox_streaming": 1, "outbox_stream_failing": 0})
	second.stop()

	server := pgtest.Server(t, pgdev.Config{Settings: map[string]string{"wal_level": "replica"}})
	poor := server.URL("postgres")
	call(t, nil, "migrate", "up", "--database-url="+poor).want(t, exitDone)
	cannot := startDaemon(t, nil, append(args, "--database-url="+poor)...)
	cannot.want(t, "it cannot stream, and says so", map[string]float64{"outbox_streaming": 0, "outbox_stream_failing": 1, "outbox_slot_retained_bytes": 0})
	if s := cannot.statusz(t); s.Streaming == nil || s.Streaming.On || !strings.Contains(s.Streaming.Problem, "wal_level") {
		t.Errorf("statusz tells %+v", s.Streaming)
	}
	eventually(t, "that is no reason not to be ready", func() bool { status, _ := cannot.get(t, "/readyz"); return status == http.StatusOK })
}
