package main

import (
	"bytes"
	"context"
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
	rep, err := measure(t, scenarios(), "-rows", "4000")
	if err != nil {
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

// TestPlantedPeers: a peer that loses a message, or delivers one twice, is found out.
func TestPlantedPeers(t *testing.T) {
	loses, repeats := oagudo(), oagudo()
	loses.fill += " offset 1"
	repeats.fill += "; insert into outbox select gen_random_uuid(), created_at, scheduled_at, metadata, payload, 0 from outbox limit 1"
	sc := bench.Scenario{Name: "planted", Rate: "msg/s"}
	for _, p := range []peer{loses, repeats} {
		sc.Cases = append(sc.Cases, bench.Case{Name: p.name, Run: bench.Nowhere().With(func(ctx context.Context, b *bench.Bed, to bench.Target) (bench.Sample, error) {
			return p.drain(ctx, b, bench.Backlog{Rows: 100}, to, nil)
		})})
	}
	rep, err := measure(t, []bench.Scenario{sc}, "-stall", "1s")
	if !errors.Is(err, bench.ErrFaults) {
		t.Fatalf("%v, want %v", err, bench.ErrFaults)
	}
	if r := rep.Results[0]; r.Lost != 1 || r.Duplicates != 0 {
		t.Errorf("one was lost: %+v", r)
	}
	if r := rep.Results[1]; r.Lost != 0 || r.Duplicates != 1 {
		t.Errorf("one was repeated: %+v", r)
	}
}

// measure runs scenarios once and reads their figures.
func measure(t *testing.T, scenarios []bench.Scenario, more ...string) (rep bench.Report, err error) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "figures.json")
	var out bytes.Buffer
	err = bench.Run(t.Context(), scenarios, append([]string{"-reps", "1", "-set", "fsync=off", "-json", file}, more...), &out, t.Output())
	if errors.Is(err, devservices.ErrNotInstalled) && !devservices.ThisMachine().CI() {
		t.Skip(err)
	}
	text, errRead := os.ReadFile(file)
	if errRead != nil {
		t.Fatal(err, errRead)
	}
	if errRead := json.Unmarshal(text, &rep); errRead != nil {
		t.Fatal(errRead)
	}
	return rep, err
}
