package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"go.uber.org/goleak"

	"github.com/outboxrelay/outbox/internal/bench"
	"github.com/outboxrelay/outbox/internal/devservices"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestEveryPeer: each is measured, and delivers everything once. How fast is not asserted.
func TestEveryPeer(t *testing.T) {
	file := filepath.Join(t.TempDir(), "figures.json")
	var out bytes.Buffer
	err := bench.Run(t.Context(), scenarios(), []string{"-rows", "4000", "-reps", "1", "-json", file, "-set", "fsync=off"}, &out, t.Output())
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
	if want := 3 * (1 + len(peers())); len(rep.Results) != want {
		t.Errorf("%d results, want %d", len(rep.Results), want)
	}
	for _, r := range rep.Results {
		for _, name := range []string{"msg/s", "statements/1k", "conns"} {
			if v, found := r.Value(name); !found || !(v.Median > 0) {
				t.Errorf("%s, %s: %s is %v, found %v; want more than zero", r.Scenario, r.Case, name, v.Median, found)
			}
		}
	}
}
