package main

import (
	"context"
	"fmt"
	"io"
	"math"

	"github.com/outboxrelay/outbox/internal/devservices/rabbitdev"
)

// bench is what all scenarios share.
type bench struct {
	server *server
	opt    options
	log    io.Writer
	node   *rabbitdev.Server // nil before the first run that needs it
}

// scenario is a set of cases that are compared with each other.
type scenario struct {
	name   string
	about  string
	rate   string // the unit of its rates
	ratio  string // heading of the comparison with a case's base
	rounds int    // if not the options'
	cases  []benchCase
}

// benchCase is one line of a scenario's table.
type benchCase struct {
	name string
	base string // name of the case, earlier in the list, that its rate is divided by
	run  func(ctx context.Context, b *bench) (sample, error)
}

// sample is what one run of a case measured.
type sample struct {
	rate   float64
	more   []figure
	faults faults
}

// figure is a measured number; its name says the unit.
type figure struct {
	name   string
	number float64
}

// faults must all be zero.
type faults struct{ lost, duplicates, disorder int64 }

func scenarios() []scenario {
	return []scenario{drainScenario(), publishScenario(), latencyScenario(), handlersScenario(), relaysScenario(), jetstreamScenario(), rabbitmqScenario()}
}

func scenarioNames() (names []string) {
	for _, sc := range scenarios() {
		names = append(names, sc.name)
	}
	return names
}

// rounds runs every case once per round, in turns, so that the machine's moods fall on all of them, and compares
// each with its base in the same round.
func (b *bench) rounds(ctx context.Context, sc scenario) ([]result, error) {
	runs := make([][]sample, len(sc.cases))
	n := b.opt.reps
	if sc.rounds > 0 {
		n = sc.rounds
	}
	for round := range n {
		rates := map[string]float64{}
		for i, c := range sc.cases {
			s, err := c.run(ctx, b)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", c.name, err)
			}
			rates[c.name] = s.rate
			if sc.ratio != "" {
				s.more = append([]figure{{sc.ratio, ratio(s.rate, rates[c.base])}}, s.more...)
			}
			runs[i] = append(runs[i], s)
			fmt.Fprintf(b.log, "%s, round %d of %d, %s: %.0f %s\n", sc.name, round+1, n, c.name, s.rate, sc.rate)
		}
	}
	results := make([]result, len(sc.cases))
	for i, c := range sc.cases {
		results[i] = summarize(sc, c.name, runs[i])
	}
	return results, nil
}

// ratio is NaN, which tables show as a dash, where there is nothing to compare with.
func ratio(rate, base float64) float64 {
	if base == 0 {
		return math.NaN()
	}
	return rate / base
}
