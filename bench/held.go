package main

import (
	"context"

	"github.com/outboxrelay/outbox/internal/bench"
)

func heldScenario() bench.Scenario {
	sc := bench.Scenario{
		Name: "held", Rate: "msg/s", Rounds: 3,
		About: "half a backlog while a transaction is open for the whole run: a reader with a snapshot, a writer of another table, a publisher that forgot to commit; and a pipelined loop of a page of code beside it",
	}
	for _, k := range someKeys() {
		none := "none, " + k.name
		for _, c := range []struct {
			name string
			hold bench.HoldFunc
		}{{"none", nil}, {"reader", bench.HoldReader}, {"writer", bench.HoldWriter}, {"publisher", bench.HoldPublisher}} {
			one := bench.Case{Name: c.name + ", " + k.name, Run: func(ctx context.Context, b *bench.Bed) (bench.Sample, error) {
				return b.Drain(ctx, bench.Drain{Backlog: bench.Backlog{Rows: b.Rows / 2, Keys: k.keys}, Hold: c.hold})
			}}
			if c.hold != nil {
				one.Compare = compareClaims("of none", none)
			}
			sc.Cases = append(sc.Cases, one)
		}
	}
	const loop = "none, hand-written loop"
	for _, c := range []struct {
		name    string
		compare []bench.Comparison
		hold    bench.HoldFunc
	}{{loop, nil, nil}, {"reader, hand-written loop", bench.Of("of none", loop), bench.HoldReader}} {
		sc.Cases = append(sc.Cases, bench.Case{Name: c.name, Compare: c.compare, Run: func(ctx context.Context, b *bench.Bed) (bench.Sample, error) {
			l := bench.Pipelined(bench.Backlog{Rows: b.Rows / 2}, nil)
			l.Hold = c.hold
			return b.DrainByLoop(ctx, l)
		}})
	}
	return sc
}

// compareClaims compares the rate and the server's time per claim.
func compareClaims(heading, base string) []bench.Comparison {
	return append(bench.Of(heading, base), bench.Comparison{Heading: "claim " + heading, Base: base, Figure: "claim ms"})
}
