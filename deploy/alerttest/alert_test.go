package alerttest

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

const (
	rulesFile  = "../alerts.yaml"
	casesFile  = "../alerts_test.yaml"
	seriesFile = "testdata/series.txt"
)

// TestAlerts: every rule does what the cases say, fires in one and, with its series there, is silent in another.
func TestAlerts(t *testing.T) {
	rules, s := readRules(t, rulesFile), readSuite(t)
	for _, problem := range slices.Concat(s.run(t, rulesFile), s.uncovered(rules)) {
		t.Error(problem)
	}
}

// TestInputIsExposed: the series of the cases are those that a daemon has; a test of the program keeps the list true.
func TestInputIsExposed(t *testing.T) {
	text, err := os.ReadFile(seriesFile)
	if err != nil {
		t.Fatal(err)
	}
	known := strings.Fields(string(text))
	s := readSuite(t)
	for _, problem := range s.unknown(known) {
		t.Error(problem)
	}
	for _, c := range []struct{ series, want string }{
		{`outbox_unhandeld{instance="a", job="b"}`, "outbox_unhandeld{} is not exposed"},
		{`outbox_unhandled{instance="a", job="b", topic="c"}`, "outbox_unhandled{topic} is not exposed"},
		{`outbox_fenced_total{instance="a", job="b"}`, "outbox_fenced_total{} is not exposed"},
		{`outbox_unhandled{job="b"}`, "no label instance"},
	} {
		planted := suite{Tests: []testCase{{Name: "planted", Input: []inputSeries{{Series: c.series}}}}}
		if got := planted.unknown(known); len(got) != 1 || !strings.Contains(got[0], c.want) {
			t.Errorf("%s: %q, want one problem with %q", c.series, got, c.want)
		}
	}
}

// TestPlantedFaults: a rule that names a series wrongly, or waits for another time or limit, is found by its cases.
func TestPlantedFaults(t *testing.T) {
	text, err := os.ReadFile(rulesFile)
	if err != nil {
		t.Fatal(err)
	}
	all := readSuite(t)
	found := func(t *testing.T, old, new, alert string) {
		t.Helper()
		if !strings.Contains(string(text), old) {
			t.Fatalf("the rules have no %q", old)
		}
		faulty := filepath.Join(t.TempDir(), "alerts.yaml")
		if err := os.WriteFile(faulty, []byte(strings.ReplaceAll(string(text), old, new)), 0o644); err != nil {
			t.Fatal(err)
		}
		s := all.of(alert)
		for _, problem := range s.run(t, faulty) {
			if strings.Contains(problem, alert) {
				return
			}
		}
		t.Errorf("%q in place of %q is not found by a case of %s", new, old, alert)
	}
	for alert, rule := range readRules(t, rulesFile) {
		for _, name := range rule.series {
			t.Run(alert+" without "+name, func(t *testing.T) { found(t, name, name+"_x", alert) })
		}
	}
	for _, c := range []struct{ old, new, alert string }{
		{"age_seconds) > 300", "age_seconds) > 900", "OutboxBehind"},
		{"age_seconds) > 300\n        for: 5m", "age_seconds) > 300\n        for: 1m", "OutboxBehind"},
		{"absent(outbox_oldest_eligible_age_seconds)\n        for: 5m", "absent(outbox_oldest_eligible_age_seconds)\n        for: 1m", "OutboxUnwatched"},
		{" unless outbox_dead_lettered_total offset 15m", "", "OutboxDeadLetters"},
		{"max by (destination) (outbox_breaker_open)", "max(outbox_breaker_open)", "OutboxDestinationUnavailable"},
		{"rate(outbox_store_failures_total[5m])", "outbox_store_failures_total", "OutboxDatabaseFailing"},
		{"> 1073741824", "> 1073741823", "OutboxWALRetained"},
	} {
		t.Run(c.new, func(t *testing.T) { found(t, c.old, c.new, c.alert) })
	}
}

// TestUncoveredFires: rules without cases, and cases that are silent because nothing is there, are found.
func TestUncoveredFires(t *testing.T) {
	rules := readRules(t, rulesFile)
	s := readSuite(t)
	for _, c := range []struct {
		what string
		keep func(tc *testCase, a *alertCase) bool
		want string
	}{
		{"no case that fires", func(_ *testCase, a *alertCase) bool { return a.Alert != "OutboxBehind" || len(a.Expect) == 0 }, "OutboxBehind fires in no case"},
		{"no case that is silent", func(_ *testCase, a *alertCase) bool { return a.Alert != "OutboxBehind" || len(a.Expect) > 0 }, "OutboxBehind is silent in no case"},
	} {
		var less suite
		for _, tc := range s.Tests {
			kept := tc
			kept.Alerts = nil
			for _, a := range tc.Alerts {
				if c.keep(&tc, &a) {
					kept.Alerts = append(kept.Alerts, a)
				}
			}
			less.Tests = append(less.Tests, kept)
		}
		if got := less.uncovered(rules); !slices.Equal(got, []string{c.want}) {
			t.Errorf("%s: %q, want %q", c.what, got, c.want)
		}
	}
	empty := suite{Tests: []testCase{{Name: "nothing is there", Alerts: []alertCase{{At: duration(time.Minute), Alert: "OutboxBehind"}}}}}
	if got := empty.uncovered(map[string]rule{"OutboxBehind": rules["OutboxBehind"]}); len(got) != 2 {
		t.Errorf("a case without series: %q, want that it neither fires nor is silent", got)
	}
}
