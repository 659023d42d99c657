package main

import (
	"encoding/json"
	"math"
	"slices"
	"time"
)

// result is a line of a scenario's table.
type result struct {
	Scenario   string
	Case       string
	Runs       int
	Values     []statistic
	Lost       int64
	Duplicates int64
	Disorder   int64
}

// statistic is a figure over all runs of a case.
type statistic struct {
	Name              string
	Median, Low, High number
}

// number is a float64 whose NaN is null in JSON.
type number float64

func (n number) MarshalJSON() ([]byte, error) {
	if math.IsNaN(float64(n)) {
		return []byte("null"), nil
	}
	return json.Marshal(float64(n))
}

// summarize takes medians figure by figure; faults are added up.
func summarize(sc scenario, name string, runs []sample) result {
	r := result{Scenario: sc.name, Case: name, Runs: len(runs)}
	figures := map[string][]float64{}
	var names []string
	for _, s := range runs {
		for _, f := range append([]figure{{sc.rate, s.rate}}, s.more...) {
			if figures[f.name] == nil {
				names = append(names, f.name)
			}
			figures[f.name] = append(figures[f.name], f.number)
		}
		r.Lost += s.faults.lost
		r.Duplicates += s.faults.duplicates
		r.Disorder += s.faults.disorder
	}
	for _, n := range names {
		vs := figures[n]
		r.Values = append(r.Values, statistic{n, number(median(vs)), number(slices.Min(vs)), number(slices.Max(vs))})
	}
	return r
}

// median of an even number of values is the mean of the two in the middle. It is NaN if there are none.
func median(vs []float64) float64 {
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

// percentile returns the smallest of the sorted values that at least p percent do not exceed: a value that was
// measured, not one between two. It is zero if there are none.
func percentile(sorted []time.Duration, p float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	rank := int(math.Ceil(p / 100 * float64(len(sorted))))
	return sorted[min(max(rank, 1), len(sorted))-1]
}

// milliseconds as a number, for tables.
func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// per returns n per so many messages.
func per(n float64, of, messages int) float64 { return n * float64(of) / float64(messages) }
