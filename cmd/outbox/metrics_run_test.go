package main

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	dto "github.com/prometheus/client_model/go"
)

// sum adds the series of a metric that have these labels; of histograms it is the count.
func sum(family *dto.MetricFamily, labels ...string) (n float64) {
	for _, m := range family.GetMetric() {
		all := ""
		for _, l := range m.Label {
			all += l.GetName() + "=" + l.GetValue() + " "
		}
		matches := true
		for _, l := range labels {
			matches = matches && strings.Contains(all, l+" ")
		}
		if matches {
			n += m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
		}
	}
	return n
}

// want waits until the metrics are as they should be.
func (d *daemon) want(t *testing.T, when string, want map[string]float64) {
	t.Helper()
	var wrong string
	defer func() {
		if wrong != "" {
			t.Log(wrong)
		}
	}()
	eventually(t, when, func() bool {
		_, text := d.get(t, "/metrics")
		scraped := parseMetrics(t, text)
		wrong = ""
		for series, n := range want {
			name, labels, _ := strings.Cut(series, " ")
			if got := sum(scraped[name], strings.Fields(labels)...); scraped[name] == nil || got != n {
				wrong += fmt.Sprintf("%s is %v, want %v\n", series, got, n)
			}
		}
		return wrong == ""
	})
}

// TestMetricsOfARun: successes, retries, a dead letter and a broker outage, each in its place.
func TestMetricsOfARun(t *testing.T) {
	t.Parallel()
	url, server := migrated(t), natsServer(t)
	db := "--database-url=" + url
	d := startDaemon(t, nil, db, "--to="+server.URL(), "--stream=ORDERS", "--create", "--subjects=orders.>", "--max-attempts=2",
		"--retry-base=100ms", "--sample-interval=1s")
	eventually(t, "it is ready", func() bool { status, _ := d.get(t, "/readyz"); return status == http.StatusOK })
	for range 3 {
		call(t, nil, "publish", "--topic=orders.created", "--key=k", db).want(t, exitDone)
	}
	call(t, nil, "publish", "--topic=foreign", db).want(t, exitDone) // no stream has its subject
	call(t, nil, "publish", "--topic=orders.later", "--delay=1h", db).want(t, exitDone)
	d.want(t, "three delivered, one dead after a retry", map[string]float64{
		"outbox_delivered_total topic=orders.created destination=default": 3, "outbox_delivered_total": 3,
		"outbox_retried_total": 1, "outbox_retried_total topic=foreign": 1, "outbox_dead_lettered_total topic=foreign": 1,
		"outbox_handler_duration_seconds topic=foreign": 2, "outbox_commit_to_ack_seconds destination=default": 3,
		"outbox_dead": 1, "outbox_ready": 0, "outbox_waiting state=scheduled": 1, "outbox_waiting state=retrying": 0, "outbox_entered_total": 5,
		"outbox_breaker_open": 0, "outbox_breaker_opened_total": 0, "outbox_oldest_eligible_age_seconds": 0, "outbox_relays": 1,
	})
	server.Stop()
	call(t, nil, "publish", "--topic=orders.created", db).want(t, exitDone)
	d.want(t, "the broker is down", map[string]float64{"outbox_breaker_open destination=default": 1, "outbox_breaker_misconfigured": 0, "outbox_ready": 1})
	if status, _ := d.get(t, "/livez"); status != http.StatusOK {
		t.Errorf("a broker that is down makes livez answer %d", status)
	}
	status, body := d.get(t, "/readyz")
	if status != http.StatusServiceUnavailable {
		t.Errorf("readyz answers %d although nothing can be delivered", status)
	}
	wantIn(t, body, "no destination takes messages")
	_, text := d.get(t, "/metrics")
	if opened := sum(parseMetrics(t, text)["outbox_breaker_opened_total"]); opened < 1 {
		t.Errorf("the breaker opened %v times", opened)
	}
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	d.want(t, "the broker is back, and the outage cost no attempt", map[string]float64{
		"outbox_delivered_total topic=orders.created": 4, "outbox_retried_total": 1, "outbox_dead_lettered_total": 1, "outbox_breaker_open": 0, "outbox_ready": 0,
		"outbox_fenced_total": 0, "outbox_lease_lost_total": 0,
	})
	if code := d.stop(); code != exitDone {
		t.Error(code)
	}
}
