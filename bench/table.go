package main

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"text/tabwriter"
)

// printTable prints the results of a scenario: a line per case, a column per figure of any case.
func printTable(out io.Writer, results []result) {
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
			v, found := r.value(c)
			fmt.Fprintf(w, "%s\t", cell(v.Median, found))
			if i == 0 {
				fmt.Fprintf(w, "%s–%s\t", cell(v.Low, found), cell(v.High, found))
			}
		}
		fmt.Fprintf(w, "%d\t%d\t%d\t\n", r.Lost, r.Duplicates, r.Disorder)
	}
	w.Flush()
}

// columnsOf are the names of all figures, in the order in which they first appear.
func columnsOf(results []result) (columns []string) {
	for _, r := range results {
		for _, v := range r.Values {
			if !slices.Contains(columns, v.Name) {
				columns = append(columns, v.Name)
			}
		}
	}
	return columns
}

func (r result) value(name string) (statistic, bool) {
	i := slices.IndexFunc(r.Values, func(v statistic) bool { return v.Name == name })
	if i < 0 {
		return statistic{}, false
	}
	return r.Values[i], true
}

// cell prints three significant digits, and whole numbers in full.
func cell(n number, found bool) string {
	v := float64(n)
	switch {
	case !found || math.IsNaN(v):
		return "–"
	case v == 0 || math.Abs(v) >= 100:
		return strconv.FormatFloat(v, 'f', 0, 64)
	}
	digits := max(0, 2-int(math.Floor(math.Log10(math.Abs(v)))))
	return strconv.FormatFloat(v, 'f', min(digits, 3), 64)
}
