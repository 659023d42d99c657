package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/outboxrelay/outbox/internal/bench"
	"github.com/outboxrelay/outbox/internal/devservices"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestEveryScenario runs all of them with small backlogs. It asserts that they measure and lose nothing, not how fast.
func TestEveryScenario(t *testing.T) {
	if testing.Short() {
		t.Skip("takes a minute")
	}
	file := filepath.Join(t.TempDir(), "figures.json")
	var out bytes.Buffer
	err := bench.Run(t.Context(), scenarios(), []string{"-rows", "1600", "-reps", "1", "-publish-for", "200ms", "-latency-for", "500ms",
		"-idle-for", "500ms", "-rate", "100", "-set", "fsync=off", "-set", "synchronous_commit=off", "-json", file}, &out, t.Output())
	if errors.Is(err, devservices.ErrNotInstalled) && !devservices.ThisMachine().CI() {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err, out.String())
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var rep bench.Report
	if err := json.Unmarshal(text, &rep); err != nil {
		t.Fatal(err)
	}
	want := -2 // the largest backlogs are not chosen
	for _, sc := range scenarios() {
		want += len(sc.Cases)
		if !strings.Contains(out.String(), "\n"+sc.Name+": ") {
			t.Errorf("no table of scenario %s in\n%s", sc.Name, out.String())
		}
	}
	if len(rep.Results) != want {
		t.Errorf("%d results, want %d", len(rep.Results), want)
	}
	for _, r := range rep.Results {
		if r.Lost+r.Duplicates+r.Disorder != 0 || r.Values[0].Median <= 0 {
			t.Errorf("%s, %s: lost %d, duplicates %d, disorder %d, rate %v", r.Scenario, r.Case, r.Lost, r.Duplicates, r.Disorder, r.Values[0])
		}
		checkCosts(t, r)
	}
}

// costs are what runs of a scenario must have cost; a zero is a meter that has come off.
var costs = map[string][]string{
	"drain":     {"WAL B/msg", "statements/1k", "round trips/1k", "conns", "dead rows/msg"},
	"jetstream": {},
	"rabbitmq":  {},
	"observed":  {"conns"},
	"wal":       {},
	"payload":   {"of plain", "heap MiB", "claim ms"},
	"relays":    {"conns", "claims/1k", "settle ms"},
	"held":      {"claim ms"},
	"blocked":   {"claim ms"},
	"backlog":   {"claim ms", "heap MiB"},
	"latency":   {"p50 ms", "due p99 ms", "WAL B/msg"},
	"publish":   {"WAL B/msg", "conns"},
	"idle":      {"conns", "statements/s"},
	"handlers":  {"of possible", "claims/1k"},
}

func checkCosts(t *testing.T, r bench.Result) {
	t.Helper()
	names, found := costs[r.Scenario]
	if !found {
		t.Errorf("scenario %s: no costs are expected of it", r.Scenario)
	}
	if strings.HasPrefix(r.Case, "plain") && r.Scenario == "payload" || strings.HasSuffix(r.Case, "hand-written loop") {
		return
	}
	for _, name := range names {
		if v, found := r.Value(name); !found || !(v.Median > 0) {
			t.Errorf("%s, %s: %s is %v, found %v; want more than zero", r.Scenario, r.Case, name, v.Median, found)
		}
	}
}
