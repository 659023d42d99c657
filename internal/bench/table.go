package bench

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"text/tabwriter"
)

// PrintTable prints the results of a scenario: a line per case, a column per figure of any case.
func PrintTable(out io.Writer, results []Result) {
	columns := columnsOf(results)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(w, "case\t")
	for i, c := range columns {
		fmt.Fprintf(w, "%s\t", c)
		if i == 0 {
			fmt.Fprint(w, "low–high\t")
		}
	}
	fmt.Fprintln(w, "lost\tdup.\tdisorder\t")
	for _, r := range results {
		fmt.Fprintf(w, "%s\t", r.Case)
		for i, c := range columns {
			v, found := r.Value(c)
			fmt.Fprintf(w, "%s\t", Cell(v.Median, found))
			if i == 0 {
				fmt.Fprintf(w, "%s–%s\t", Cell(v.Low, found), Cell(v.High, found))
			}
		}
		fmt.Fprintf(w, "%d\t%d\t%d\t\n", r.Lost, r.Duplicates, r.Disorder)
	}
	w.Flush()
}

// columnsOf are the names of all figures, in the order in which they first appear.
func columnsOf(results []Result) (columns []string) {
	for _, r := range results {
		for _, v := range r.Values {
			if !slices.Contains(columns, v.Name) {
				columns = append(columns, v.Name)
			}
		}
	}
	return columns
}

func (r Result) Value(name string) (Statistic, bool) {
	i := slices.IndexFunc(r.Values, func(v Statistic) bool { return v.Name == name })
	if i < 0 {
		return Statistic{}, false
	}
	return r.Values[i], true
}

// Cell prints three significant digits, and whole numbers in full.
func Cell(n Number, found bool) string {
	v := float64(n)
	switch {
	case !found || !n.finite():
		return "–"
	case v == 0 || math.Abs(v) >= 100:
		return strconv.FormatFloat(v, 'f', 0, 64)
	}
	digits := max(0, 2-int(math.Floor(math.Log10(math.Abs(v)))))
	return strconv.FormatFloat(v, 'f', min(digits, 3), 64)
}
