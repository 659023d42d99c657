package bench

import (
	"context"
	"math"
	"slices"
	"testing"
)

// TestRounds: ratios are those of a round, and their median is taken afterwards.
func TestRounds(t *testing.T) {
	rates := map[string][]float64{"base": {100, 200, 50}, "case": {50, 50, 100}}
	run := func(name string) func(context.Context, *Bed) (Sample, error) {
		return func(context.Context, *Bed) (Sample, error) {
			rate := rates[name][0]
			rates[name] = rates[name][1:]
			return Sample{Rate: rate, More: []Figure{{"claim ms", 2 * rate}}}, nil
		}
	}
	b := &Bed{Options: Options{Reps: 3}, Log: t.Output()}
	results, err := b.rounds(t.Context(), Scenario{Name: "s", Rate: "msg/s", Cases: []Case{
		{Name: "base", Run: run("base")},
		{Name: "case", Run: run("case"), Compare: []Comparison{
			{"of base", "base", ""}, {"claim of base", "base", "claim ms"}, {"of nothing", "none", ""}, {"of no figure", "base", "none"},
		}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]float64{"msg/s": 50, "of base": 0.5, "claim of base": 0.5, "of nothing": math.NaN(), "of no figure": math.NaN()} {
		if v, found := results[1].Value(name); !found || float64(v.Median) != want && !math.IsNaN(want) || math.IsNaN(want) != math.IsNaN(float64(v.Median)) {
			t.Errorf("%s = %v, found %v; want %v", name, v, found, want)
		}
	}
	if columns := columnsOf(results); !slices.Equal(columns, []string{"msg/s", "of base", "claim of base", "of nothing", "of no figure", "claim ms"}) {
		t.Errorf("columns %q", columns)
	}
}
