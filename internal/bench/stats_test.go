package bench

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
		if got := Median(c.of); got != c.want || !slices.Equal(c.of, before) {
			t.Errorf("Median(%v) = %v, and the values are now %v; want %v", before, got, c.of, c.want)
		}
	}
	if got := Median(nil); !math.IsNaN(got) {
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
		if got := Percentile(c.of, c.p); got != c.want {
			t.Errorf("percentile %v of %d values = %d, want %d", c.p, len(c.of), got, c.want)
		}
	}
}

func TestRatio(t *testing.T) {
	if got := Ratio(3, 4); got != 0.75 {
		t.Errorf("Ratio(3, 4) = %v", got)
	}
	if got := Ratio(3, 0); !math.IsNaN(got) {
		t.Errorf("ratio to nothing = %v, want NaN", got)
	}
}

func TestSummarize(t *testing.T) {
	r := summarize(Scenario{Name: "s", Rate: "msg/s"}, "c", []Sample{
		{Rate: 10, More: []Figure{{"x", 1}}, Faults: Faults{Lost: 1}},
		{Rate: 30, More: []Figure{{"x", 5}}, Faults: Faults{Duplicates: 2}},
		{Rate: 20, More: []Figure{{"x", 2}}, Faults: Faults{Lost: 1, Disorder: 3}},
	})
	want := []Statistic{{"msg/s", 20, 10, 30}, {"x", 2, 1, 5}}
	if !slices.Equal(r.Values, want) || r.Runs != 3 || r.Lost != 2 || r.Duplicates != 2 || r.Disorder != 3 {
		t.Errorf("summarize = %+v, want values %v and faults 2, 2, 3", r, want)
	}
	if n := (&Report{Results: []Result{r}}).faults(); n != 7 {
		t.Errorf("the report has %d faults, want 7", n)
	}
}

func TestNumberJSON(t *testing.T) {
	text, err := json.Marshal([]Number{1.5, Number(math.NaN()), Number(math.Inf(1))})
	if err != nil || string(text) != "[1.5,null,null]" {
		t.Errorf("JSON %s, %v", text, err)
	}
}
