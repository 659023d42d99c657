package main

import (
	"bytes"
	"cmp"
	"fmt"
	"net/http"
	"slices"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	dto "github.com/prometheus/client_model/go"
)

// metricsHandler answers scrapes. A scrape takes what is in memory; at most a few are made at a time.
func metricsHandler(registry *prometheus.Registry, destinations []string) http.Handler {
	const scrapes = 4
	return whole(promhttp.HandlerFor(&zeroes{registry, destinations}, promhttp.HandlerOpts{MaxRequestsInFlight: scrapes, ErrorHandling: promhttp.ContinueOnError}))
}

// whole makes answers complete before anything of them is sent: a client that reads slowly, or not at all, does not hold
// one of the few that are made at a time.
func whole(inner http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a := answer{header: w.Header(), status: http.StatusOK}
		inner.ServeHTTP(&a, r)
		w.WriteHeader(a.status)
		_, _ = w.Write(a.body.Bytes()) // whoever asked is gone
	})
}

// answer is an http.ResponseWriter that keeps what is written.
type answer struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (a *answer) Header() http.Header         { return a.header }
func (a *answer) WriteHeader(status int)      { a.status = status }
func (a *answer) Write(p []byte) (int, error) { return a.body.Write(p) }

// zeroes adds histograms that nothing was observed for yet: OpenTelemetry has no way to begin one at zero, and what is
// absent cannot be told from what does not work.
type zeroes struct {
	prometheus.Gatherer
	destinations []string
}

// empty are the histograms, with the labels of a series that is there from the start beside its destination.
var empty = []struct {
	name, help string
	labels     map[string]string
}{
	{"outbox_handler_duration_seconds", "Time of an attempt, whatever its result.", map[string]string{"topic": "_other"}},
	{"outbox_commit_to_ack_seconds", "Time from the publishing of a message to its acceptance by the destination.", nil},
}

// Gather adds what is missing to what is there.
func (z *zeroes) Gather() ([]*dto.MetricFamily, error) {
	families, err := z.Gatherer.Gather()
	for _, h := range empty {
		i := slices.IndexFunc(families, func(f *dto.MetricFamily) bool { return f.GetName() == h.name })
		if i < 0 {
			i = len(families)
			families = append(families, &dto.MetricFamily{Name: &h.name, Help: &h.help, Type: dto.MetricType_HISTOGRAM.Enum()})
		}
		for _, d := range z.destinations {
			labels := map[string]string{"destination": d}
			for name, value := range h.labels {
				labels[name] = value
			}
			if !slices.ContainsFunc(families[i].Metric, func(m *dto.Metric) bool { return hasLabels(m, labels) }) {
				families[i].Metric = append(families[i].Metric, zeroHistogram(labels))
			}
		}
	}
	slices.SortFunc(families, func(a, b *dto.MetricFamily) int { return cmp.Compare(a.GetName(), b.GetName()) })
	if err != nil {
		return families, fmt.Errorf("gather metrics: %w", err)
	}
	return families, nil
}

func hasLabels(m *dto.Metric, labels map[string]string) bool {
	found := 0
	for _, l := range m.Label {
		if labels[l.GetName()] == l.GetValue() {
			found++
		}
	}
	return found == len(labels)
}

func zeroHistogram(labels map[string]string) *dto.Metric {
	m := &dto.Metric{Histogram: &dto.Histogram{SampleCount: new(uint64), SampleSum: new(float64)}}
	for name, value := range labels {
		m.Label = append(m.Label, &dto.LabelPair{Name: &name, Value: &value})
	}
	slices.SortFunc(m.Label, func(a, b *dto.LabelPair) int { return cmp.Compare(a.GetName(), b.GetName()) })
	return m
}
