package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/outboxrelay/outbox/internal/devservices"
)

// forgetful has lost a message that it acknowledged.
type forgetful struct{ nowhere }

func (forgetful) Arrived(context.Context) (int64, error) { return plantedRows - 1, nil }

const plantedRows = 200

// planted are wrong drains: each does something to the messages behind the instruments' back.
var planted = []struct {
	name  string
	sql   string
	drain Drain
	want  func(f Faults) bool
}{
	{"nothing", "", Drain{}, func(f Faults) bool { return f == Faults{} }},
	{"lost", "delete from outbox.message where seq <= 5", Drain{}, func(f Faults) bool { return f == Faults{Lost: 5} }},
	{"repeated", "insert into outbox.message (id, topic, payload) select id, topic, payload from outbox.message where seq <= 3", Drain{},
		func(f Faults) bool { return f.Duplicates > 0 && f.Lost == 0 }},
	{"out of order", "update outbox.message set seq = 100000 - seq", Drain{Backlog: Backlog{Keys: 1}}, func(f Faults) bool { return f.Disorder > 0 }},
	{"passed a blocked key", "delete from outbox.waiting", Drain{Backlog: Backlog{Front: 10, Blocked: true}},
		func(f Faults) bool { return f.Disorder > 0 }},
	{"handled what nobody handles", "update outbox.message set topic = 'orders.created'", Drain{Backlog: Backlog{Front: 10}, Topics: []string{Topic}},
		func(f Faults) bool { return f.Disorder > 0 }},
	{"forgotten by the destination", "", Drain{To: forgetful{}}, func(f Faults) bool { return f == Faults{Lost: 1} }},
}

// TestPlantedFaults: a drain that goes wrong in any of the ways that are looked for is found out, with the right name.
func TestPlantedFaults(t *testing.T) {
	sc := Scenario{Name: "planted", Rate: "msg/s"}
	for _, p := range planted {
		sc.Cases = append(sc.Cases, Case{Name: p.name, Run: func(ctx context.Context, b *Bed) (Sample, error) {
			run := p.drain
			run.Rows = plantedRows
			run.Hold = func(ctx context.Context, b *Bed) (func() error, error) {
				return func() error { return nil }, b.Exec(ctx, p.sql)
			}
			return b.Drain(ctx, run)
		}})
	}
	file := filepath.Join(t.TempDir(), "figures.json")
	var out bytes.Buffer
	err := Run(t.Context(), []Scenario{sc}, []string{"-reps", "1", "-stall", "1s", "-set", "fsync=off", "-json", file}, &out, t.Output())
	if errors.Is(err, devservices.ErrNotInstalled) && !devservices.ThisMachine().CI() {
		t.Skip(err)
	}
	if !errors.Is(err, ErrFaults) {
		t.Fatalf("%v, want %v; output %s", err, ErrFaults, out.String())
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var rep Report
	if err := json.Unmarshal(text, &rep); err != nil {
		t.Fatal(err)
	}
	for i, r := range rep.Results {
		if f := (Faults{r.Lost, r.Duplicates, r.Disorder}); !planted[i].want(f) {
			t.Errorf("%s: %+v", r.Case, f)
		}
	}
}
