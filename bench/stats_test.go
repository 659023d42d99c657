package main

import (
	"encoding/json"
	"math"
	"slices"
	"testing"
	"time"
)

func TestMedian(t *testing.T) {
	for _, c := range []struct {
		of   []float64
		want float64
	}{{[]float64{7}, 7}, {[]float64{9, 1, 5}, 5}, {[]float64{4, 1, 3, 2}, 2.5}} {
		before := slices.Clone(c.of)
		if got := median(c.of); got != c.want || !slices.Equal(c.of, before) {
			t.Errorf("median(%v) = %v, and the values are now %v; want %v", before, got, c.of, c.want)
		}
	}
	if got := median(nil); !math.IsNaN(got) {
		t.Errorf("median of nothing = %v, want NaN", got)
	}
}

func TestPercentile(t *testing.T) {
	var hundred []time.Duration
	for i := range 100 {
		hundred = append(hundred, time.Duration(i+1))
	}
	for _, c := range []struct {
		of   []time.Duration
		p    float64
		want time.Duration
	}{
		{hundred, 50, 50}, {hundred, 99, 99}, {hundred, 99.5, 100}, {hundred, 100, 100}, {hundred, 0, 1},
		{[]time.Duration{3, 4}, 50, 3}, {[]time.Duration{3, 4}, 51, 4}, {nil, 50, 0},
	} {
		if got := percentile(c.of, c.p); got != c.want {
			t.Errorf("percentile %v of %d values = %d, want %d", c.p, len(c.of), got, c.want)
		}
	}
}

func TestRatio(t *testing.T) {
	if got := ratio(3, 4); got != 0.75 {
		t.Errorf("ratio(3, 4) = %v", got)
	}
	if got := ratio(3, 0); !math.IsNaN(got) {
		t.Errorf("ratio to nothing = %v, want NaN", got)
	}
}

func TestSummarize(t *testing.T) {
	r := summarize(scenario{name: "s", rate: "msg/s"}, "c", []sample{
		{rate: 10, more: []figure{{"x", 1}}, faults: faults{lost: 1}},
		{rate: 30, more: []figure{{"x", 5}}, faults: faults{duplicates: 2}},
		{rate: 20, more: []figure{{"x", 2}}, faults: faults{lost: 1, disorder: 3}},
	})
	want := []statistic{{"msg/s", 20, 10, 30}, {"x", 2, 1, 5}}
	if !slices.Equal(r.Values, want) || r.Runs != 3 || r.Lost != 2 || r.Duplicates != 2 || r.Disorder != 3 {
		t.Errorf("summarize = %+v, want values %v and faults 2, 2, 3", r, want)
	}
	if n := (&report{Results: []result{r}}).faults(); n != 7 {
		t.Errorf("the report has %d faults, want 7", n)
	}
}

func TestNumberJSON(t *testing.T) {
	text, err := json.Marshal([]number{1.5, number(math.NaN())})
	if err != nil || string(text) != "[1.5,null]" {
		t.Errorf("JSON %s, %v", text, err)
	}
}
