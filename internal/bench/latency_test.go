package bench

import (
	"testing"
	"time"
)

// TestTimesFigures: the first second is left out, and a handler that is faster than the answer to the commit has waited
// no time.
func TestTimesFigures(t *testing.T) {
	ts := NewTimes(4)
	for number, handled := range []time.Duration{time.Hour, 20 * time.Millisecond, 5 * time.Millisecond, 12 * time.Millisecond} {
		ts.committed[number+1].Store(int64(10 * time.Millisecond))
		ts.handled[number+1].Store(int64(handled))
	}
	got := map[string]float64{}
	for _, f := range ts.Figures(1) {
		got[f.Name] = f.Value
	}
	if got["p50 ms"] != 2 || got["max ms"] != 10 || got["due p50 ms"] != 12 {
		t.Errorf("%v, want waits of 0, 2 and 10 ms", got)
	}
	ts.Handled(0)
	ts.Handled(5) // of nobody: not noted, and no panic
	if before := ts.handled[2].Load(); before != int64(20*time.Millisecond) {
		t.Errorf("%d", before)
	}
}
