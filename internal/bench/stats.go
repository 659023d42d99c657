package bench

import (
	"encoding/json"
	"math"
	"slices"
	"time"
)

// Result is a line of a scenario's table.
type Result struct {
	Scenario   string
	Case       string
	Runs       int
	Values     []Statistic
	Lost       int64
	Duplicates int64
	Disorder   int64
}

// Statistic is a figure over all runs of a case.
type Statistic struct {
	Name              string
	Median, Low, High Number
}

// Number is a float64; what is not finite, of nothing, is null in JSON.
type Number float64

func (n Number) MarshalJSON() ([]byte, error) {
	if !n.finite() {
		return []byte("null"), nil
	}
	return json.Marshal(float64(n))
}

func (n Number) finite() bool { return !math.IsNaN(float64(n)) && !math.IsInf(float64(n), 0) }

// summarize takes medians figure by figure; faults are added up.
func summarize(sc Scenario, name string, runs []Sample) Result {
	r := Result{Scenario: sc.Name, Case: name, Runs: len(runs)}
	figures := map[string][]float64{}
	var names []string
	for _, s := range runs {
		for _, f := range append([]Figure{{sc.Rate, s.Rate}}, s.More...) {
			if figures[f.Name] == nil {
				names = append(names, f.Name)
			}
			figures[f.Name] = append(figures[f.Name], f.Value)
		}
		r.Lost += s.Faults.Lost
		r.Duplicates += s.Faults.Duplicates
		r.Disorder += s.Faults.Disorder
	}
	for _, n := range names {
		vs := figures[n]
		r.Values = append(r.Values, Statistic{n, Number(Median(vs)), Number(slices.Min(vs)), Number(slices.Max(vs))})
	}
	return r
}

// Median of an even number of values is the mean of the two in the middle. It is NaN if there are none.
func Median(vs []float64) float64 {
	if len(vs) == 0 {
		return math.NaN()
	}
	sorted := slices.Sorted(slices.Values(vs))
	mid := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[mid]
	}
	return (sorted[mid-1] + sorted[mid]) / 2
}

// Percentile returns the smallest of the sorted values that at least p percent do not exceed: a value that was
// measured, not one between two. It is zero if there are none.
func Percentile(sorted []time.Duration, p float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	rank := int(math.Ceil(p / 100 * float64(len(sorted))))
	return sorted[min(max(rank, 1), len(sorted))-1]
}

// Milliseconds as a Number, for tables.
func Milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// Per returns n per so many messages.
func Per(n float64, of, messages int) float64 { return n * float64(of) / float64(messages) }
