package bench

import (
	"bytes"
	"math"
	"testing"
)

func TestPrintTable(t *testing.T) {
	var out bytes.Buffer
	PrintTable(&out, []Result{
		{Case: "plain", Values: []Statistic{{"msg/s", 123456, 100000, 130000}, {"of plain", Number(math.NaN()), 0, 0}}},
		{Case: "no keys", Values: []Statistic{{"msg/s", 1000, 900, 1100}, {"of plain", 0.8125, 0.7, 0.9}, {"claim ms", 2.345, 1, 3}}, Lost: 4},
	})
	want := `     case   msg/s       low–high  of plain  claim ms  lost  dup.  disorder
    plain  123456  100000–130000         –         –     0     0         0
  no keys    1000       900–1100     0.812      2.35     4     0         0
`
	if out.String() != want {
		t.Errorf("table\n%s\nwant\n%s", out.String(), want)
	}
}

func TestCell(t *testing.T) {
	for v, want := range map[Number]string{0: "0", 0.0123: "0.012", 0.5: "0.500", 12.34: "12.3", 99.99: "100.0", 1234.5: "1234", -2.5: "-2.50"} {
		if got := Cell(v, true); got != want {
			t.Errorf("Cell(%v) = %q, want %q", v, got, want)
		}
	}
	if got := Cell(Number(math.Inf(1)), true) + Cell(1, false); got != "––" {
		t.Errorf("cell of a missing figure = %q", got)
	}
}
