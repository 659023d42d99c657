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

	"github.com/outboxrelay/outbox/internal/devservices"
	"github.com/outboxrelay/outbox/internal/devservices/rabbitdev"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestEveryScenario runs all of them with small backlogs. It asserts that they measure and lose nothing, not how fast.
func TestEveryScenario(t *testing.T) {
	file := filepath.Join(t.TempDir(), "figures.json")
	var out bytes.Buffer
	err := run(t.Context(), []string{"-rows", "2000", "-reps", "1", "-publish-for", "200ms", "-latency-for", "1s", "-rate", "100", "-json", file},
		&out, t.Output())
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
	var rep report
	if err := json.Unmarshal(text, &rep); err != nil {
		t.Fatal(err)
	}
	want := 0
	for _, sc := range scenarios() {
		if sc.name == "rabbitmq" && !rabbitdev.Installed() {
			continue
		}
		want += len(sc.cases)
		if !strings.Contains(out.String(), "\n"+sc.name+": ") {
			t.Errorf("no table of scenario %s in\n%s", sc.name, out.String())
		}
	}
	if len(rep.Results) != want {
		t.Errorf("%d results, want %d", len(rep.Results), want)
	}
	for _, r := range rep.Results {
		if r.Lost+r.Duplicates+r.Disorder != 0 || r.Values[0].Median <= 0 {
			t.Errorf("%s, %s: lost %d, duplicates %d, disorder %d, rate %v", r.Scenario, r.Case, r.Lost, r.Duplicates, r.Disorder, r.Values[0])
		}
	}
	checkCosts(t, rep.Results)
}

// checkCosts finds a meter that has come off: what every drain must cost is counted.
func checkCosts(t *testing.T, results []result) {
	t.Helper()
	for _, r := range results {
		if r.Scenario != "drain" {
			continue
		}
		names := []string{"WAL B/msg", "statements/1k", "round trips/1k"}
		if !strings.HasPrefix(r.Case, "plain") {
			names = append(names, "claims/1k", "claim ms", "settle ms", "of plain")
		}
		for _, name := range names {
			if v, found := r.value(name); !found || !(v.Median > 0) {
				t.Errorf("drain, %s: %s is %v, found %v; want more than zero", r.Case, name, v.Median, found)
			}
		}
	}
}
