package main

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

func parseMetrics(t *testing.T, text string) map[string]*dto.MetricFamily {
	t.Helper()
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(text))
	if err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return families
}

var listedMetric = regexp.MustCompile("(?m)^\\| `outbox\\.[a-z_.]+` \\| `([a-z_]+)` \\|")

// listedMetrics are the names in docs/observability.md.
func listedMetrics(t *testing.T) (names []string) {
	t.Helper()
	text, err := os.ReadFile("../../docs/observability.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, match := range listedMetric.FindAllStringSubmatch(string(text), -1) {
		names = append(names, match[1])
	}
	if len(names) < 20 {
		t.Fatalf("the page lists only %q", names)
	}
	return names
}

func contains(list []string, s string) bool { return slices.Contains(list, s) }
