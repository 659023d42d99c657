package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
)

// Bed is what all scenarios share: a private server with an outbox, and the options.
type Bed struct {
	*Server
	Options
	Log io.Writer

	backend Backend
}

// Scenario is a set of cases that are compared with each other.
type Scenario struct {
	Name   string
	About  string
	Rate   string // the unit of its rates
	Rounds int    // at most, if the options do not say how many
	Cases  []Case
	End    func() error // ends what its runs share; nil: nothing
}

// Case is one line of a scenario's table.
type Case struct {
	Name    string
	Compare []Comparison
	Run     func(ctx context.Context, b *Bed) (Sample, error)
}

// Comparison is a column: a figure of a case divided by that of another one in the same round.
type Comparison struct {
	Heading string
	Base    string // a case, earlier in the list
	Figure  string // empty: the rate
}

// Of compares the rate with that of a case.
func Of(heading, base string) []Comparison { return []Comparison{{Heading: heading, Base: base}} }

// Sample is what one run of a case measured.
type Sample struct {
	Rate   float64
	More   []Figure
	Faults Faults
}

// Figure is a measured number; its name says the unit.
type Figure struct {
	Name  string
	Value float64
}

// ErrSkipped leaves a case out of the table.
var ErrSkipped = errors.New("not chosen")

// Faults must all be zero.
type Faults struct{ Lost, Duplicates, Disorder int64 }

// figure finds a figure of the sample; the empty name is the rate. What is not there is NaN.
func (s Sample) figure(name string) float64 {
	if name == "" {
		return s.Rate
	}
	i := slices.IndexFunc(s.More, func(f Figure) bool { return f.Name == name })
	if i < 0 {
		return math.NaN()
	}
	return s.More[i].Value
}

// rounds runs every case once per round, in turns, so that the machine's moods fall on all of them, and compares
// each with its bases in the same round.
func (b *Bed) rounds(ctx context.Context, sc Scenario) ([]Result, error) {
	runs := make([][]Sample, len(sc.Cases))
	n := b.roundsOf(sc)
	for round := range n {
		done := map[string]Sample{}
		for i, c := range sc.Cases {
			if !b.chosenCase(c.Name) {
				continue
			}
			s, err := c.Run(ctx, b)
			if errors.Is(err, ErrSkipped) {
				continue
			}
			if err != nil {
				return nil, fmt.Errorf("%s: %w", c.Name, err)
			}
			s.More = append(sc.compare(c.Compare, s, done), s.More...)
			done[c.Name] = s
			runs[i] = append(runs[i], s)
			fmt.Fprintf(b.Log, "%s, round %d of %d, %s: %.0f %s\n", sc.Name, round+1, n, c.Name, s.Rate, sc.Rate)
		}
	}
	var results []Result
	for i, c := range sc.Cases {
		if len(runs[i]) > 0 {
			results = append(results, summarize(sc, c.Name, runs[i]))
		}
	}
	return results, nil
}

// compare divides by what the round has measured so far. All cases have the columns of all, so that these come first.
func (sc Scenario) compare(with []Comparison, s Sample, done map[string]Sample) (columns []Figure) {
	for _, heading := range sc.headings() {
		quotient := math.NaN()
		for _, c := range with {
			if base, found := done[c.Base]; found && c.Heading == heading {
				quotient = Ratio(s.figure(c.Figure), base.figure(c.Figure))
			}
		}
		columns = append(columns, Figure{heading, quotient})
	}
	return columns
}

func (sc Scenario) headings() (all []string) {
	for _, c := range sc.Cases {
		for _, with := range c.Compare {
			if !slices.Contains(all, with.Heading) {
				all = append(all, with.Heading)
			}
		}
	}
	return all
}

// Ratio is NaN, which tables show as a dash, where there is nothing to compare with.
func Ratio(n, base float64) float64 {
	if base == 0 {
		return math.NaN()
	}
	return n / base
}
