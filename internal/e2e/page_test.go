package e2e

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// page is a document with the matrix between two marks. What is played is put there when the test ends; other rows stay
// as they were measured before.
type page struct {
	mu      sync.Mutex
	results map[string]string // the line of each row that was played; empty: it failed
}

const (
	matrixBegin = "<!-- matrix -->"
	matrixEnd   = "<!-- end -->"
	matrixHead  = "| Fault | Engine | Destination | Order | Committed | Delivered | Duplicates | Order violations | Lost | Longest stall |\n" +
		"|---|---|---|---|---|---|---|---|---|---|\n"
	guarantees = "../../docs/guarantees.md"
)

// newPage writes the page when the test ends, if the environment names one.
func newPage(t *testing.T) *page {
	t.Helper()
	p := &page{results: map[string]string{}}
	if file := os.Getenv(pageVariable); file != "" {
		t.Cleanup(func() {
			if err := p.write(file); err != nil {
				t.Error(err)
			}
		})
	}
	return p
}

func (p *page) add(r row, m measured) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.results[r.cells()] = fmt.Sprintf("%s %d | %d | %d | %d | %d | %.1f s |", r.cells(), m.committed, m.delivered, m.duplicates, m.disorders, m.lost,
		m.stall.Round(100*time.Millisecond).Seconds())
}

// played takes a row from the page that has failed.
func (p *page) played(t *testing.T, r row) {
	if !t.Skipped() {
		p.drop(r)
	}
}

// drop takes a row from the page unless it was added.
func (p *page) drop(r row) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, added := p.results[r.cells()]; !added {
		p.results[r.cells()] = ""
	}
}

// cells are the row's first ones, which name it.
func (r row) cells() string {
	return fmt.Sprintf("| %s | %s | %s | %s |", r.name, r.engine, r.destination, r.order)
}

func (p *page) write(file string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	fresh, err := p.merged(string(text))
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	return os.WriteFile(file, []byte(fresh), 0o644)
}

// merged is the page with what was played.
func (p *page) merged(text string) (string, error) {
	before, old, after, err := splitPage(text)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	b.WriteString(before + "\n" + matrixHead)
	for _, r := range matrix() {
		line, played := p.results[r.cells()]
		if !played {
			line = measuredLine(old, r)
		}
		if line != "" {
			b.WriteString(line + "\n")
		}
	}
	return b.String() + after, nil
}

func splitPage(text string) (before, table, after string, err error) {
	begin := strings.Index(text, matrixBegin)
	if begin < 0 {
		return "", "", "", fmt.Errorf("there is no line %s", matrixBegin)
	}
	begin += len(matrixBegin)
	length := strings.Index(text[begin:], matrixEnd)
	if length < 0 {
		return "", "", "", fmt.Errorf("there is no line %s after %s", matrixEnd, matrixBegin)
	}
	return text[:begin], text[begin : begin+length], text[begin+length:], nil
}

// measuredLine is the row's line in a table; empty: there is none.
func measuredLine(table string, r row) string {
	lines := strings.Split(table, "\n")
	if i := slices.IndexFunc(lines, func(l string) bool { return strings.HasPrefix(l, r.cells()) }); i >= 0 {
		return lines[i]
	}
	return ""
}

// TestPageHasEachFault: the guarantees show a measured row of every fault, with none of another that was renamed.
func TestPageHasEachFault(t *testing.T) {
	text, err := os.ReadFile(guarantees)
	if err != nil {
		t.Fatal(err)
	}
	for _, problem := range missingRows(string(text)) {
		t.Error(problem)
	}
}

func missingRows(text string) (problems []string) {
	_, table, _, err := splitPage(text)
	if err != nil {
		return []string{err.Error()}
	}
	known := 0
	shown := map[string]bool{}
	for _, r := range matrix() {
		if measuredLine(table, r) != "" {
			known++
			shown[r.name] = true
		}
	}
	for _, f := range faults {
		if !shown[f.name] {
			problems = append(problems, fmt.Sprintf("%q has no row", f.name))
		}
	}
	if n := strings.Count(strings.TrimPrefix(table, "\n"+matrixHead), "\n"); n != known {
		problems = append(problems, fmt.Sprintf("%d rows, of which %d are in the matrix", n, known))
	}
	return problems
}

// TestPageChecksFire: rows that are missing or unknown are noticed, played ones replace those of before, failed ones go.
func TestPageChecksFire(t *testing.T) {
	rows := matrix()
	first, second := rows[0], rows[1]
	empty := "above\n" + matrixBegin + "\n" + matrixHead + matrixEnd + "\nbelow\n"
	if got := missingRows(empty); len(got) != len(faults) {
		t.Errorf("an empty table: %q", got)
	}
	if got := missingRows("nothing"); len(got) != 1 {
		t.Errorf("no table: %q", got)
	}
	p := &page{results: map[string]string{}}
	p.add(first, measured{committed: 10, delivered: 9, lost: 1, stall: 1234 * time.Millisecond})
	p.add(second, measured{committed: 11})
	text, err := p.merged(empty)
	if err != nil {
		t.Fatal(err)
	}
	if line := first.cells() + " 10 | 9 | 0 | 0 | 1 | 1.2 s |\n"; !strings.Contains(text, line) || !strings.HasPrefix(text, "above\n") || !strings.HasSuffix(text, "\nbelow\n") {
		t.Errorf("the page lacks %q: %s", line, text)
	}
	if got := missingRows(strings.Replace(text, first.cells(), "| renamed |", 1)); !slices.ContainsFunc(got, func(p string) bool { return strings.Contains(p, "2 rows, of which 1") }) {
		t.Errorf("a renamed row: %q", got)
	}
	next := &page{results: map[string]string{}}
	next.add(first, measured{committed: 12})
	next.drop(first)
	next.drop(second)
	if text, err = next.merged(text); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(text, first.cells()+" 12 |") || strings.Contains(text, second.cells()) {
		t.Errorf("played again: %s", text)
	}
}
