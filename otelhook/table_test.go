package otelhook

import (
	"fmt"
	"strings"
)

// Table is that of docs/observability.md.
func Table() string {
	var b strings.Builder
	b.WriteString("| Instrument | In Prometheus | Labels | What it is |\n|---|---|---|---|\n")
	line := func(i instrument, kind string) {
		fmt.Fprintf(&b, "| `%s` | `%s` | %s | %s |\n", i.name, prometheusName(i, kind), i.attributes, i.help)
	}
	for _, i := range []instrument{published, delivered, retried, deadLettered, dropped, expired, givenBack, fenced, breakerOpened, stuck, leaseLost, storeFailures} {
		line(i, "counter")
	}
	line(handlerDuration, "histogram")
	line(commitToAck, "histogram")
	for _, g := range sums() {
		line(g.instrument, "counter")
	}
	for _, g := range gauges() {
		line(g.instrument, "gauge")
	}
	return b.String()
}

// prometheusName is the name that the OpenTelemetry exporter for Prometheus gives; a test of the program sees that.
func prometheusName(i instrument, kind string) string {
	name := strings.ReplaceAll(i.name, ".", "_")
	switch i.unit {
	case seconds:
		name += "_seconds"
	case bytes:
		name += "_bytes"
	}
	if kind == "counter" {
		name += "_total"
	}
	return name
}
