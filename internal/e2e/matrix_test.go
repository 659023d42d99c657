package e2e

import (
	"os"
	"regexp"
	"slices"
	"testing"
)

// Variables of the environment for the matrix: which rows, as a regular expression on fault/engine/destination/order, and
// the page whose table gets what was measured.
const (
	matrixVariable = "OUTBOX_TEST_MATRIX"
	pageVariable   = "OUTBOX_TEST_MATRIX_PAGE"
)

// TestMatrix plays faults on a publisher, two relays and their servers, all processes of their own, at each engine,
// destination and order of keys. Nothing is lost, keys stay in order, and what comes twice had been in flight. make matrix
// plays all of it and writes the table into docs/guarantees.md.
func TestMatrix(t *testing.T) {
	plays(t)
	rows, page := chosenRows(t), newPage(t)
	seed := seedOf(t)
	for _, destination := range destinations {
		t.Run(destination, func(t *testing.T) {
			t.Parallel()
			var s *site
			for _, r := range rows {
				if r.destination != destination {
					continue
				}
				if s == nil {
					s = newSite(t, destination)
				}
				t.Run(r.name+"/"+r.engine.String()+"/"+r.order, func(t *testing.T) {
					defer page.played(t, r)
					m, err := newCell(t, s, r, seed).runAll()
					t.Logf("%+v", m)
					if err != nil {
						t.Error(err)
					}
					if !t.Failed() {
						page.add(r, m)
					}
				})
			}
		})
	}
}

// chosenRows are the rows that the environment names; without it, a few.
func chosenRows(t *testing.T) []row {
	t.Helper()
	text, set := os.LookupEnv(matrixVariable)
	if !set {
		return brief(matrix())
	}
	pattern, err := regexp.Compile(text)
	if err != nil {
		t.Fatalf("%s: %v", matrixVariable, err)
	}
	rows := slices.DeleteFunc(matrix(), func(r row) bool { return !pattern.MatchString(r.String()) })
	if len(rows) == 0 {
		t.Fatalf("%s=%q: matches no row, such as %q", matrixVariable, text, matrix()[0])
	}
	return rows
}

// TestMatrixRows: every fault has a row, names are told apart, and what every run plays is there.
func TestMatrixRows(t *testing.T) {
	all := matrix()
	names := map[string]bool{}
	played := map[string]bool{}
	for _, r := range all {
		if names[r.String()] {
			t.Errorf("%s is there twice", r)
		}
		names[r.String()], played[r.name] = true, true
	}
	for _, f := range faults {
		if !played[f.name] {
			t.Errorf("%s is played nowhere", f.name)
		}
		if f.briefly != "" && !names[f.name+"/"+f.briefly] {
			t.Errorf("%s is to be played at %s, which it never is", f.name, f.briefly)
		}
	}
	t.Logf("%d rows, of which %d in every run", len(all), len(brief(all)))
}
