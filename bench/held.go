package main

import (
	"context"

	"github.com/outboxrelay/outbox/internal/bench"
)

func heldScenario() bench.Scenario {
	sc := bench.Scenario{
		Name: "held", Rate: "msg/s", Rounds: 3,
		About: "half a backlog while a transaction is open for the whole run: a reader with a snapshot, a writer of another table, a publisher that forgot to commit",
	}
	for _, k := range someKeys() {
		none := "none, " + k.name
		for _, c := range []struct {
			name string
			hold holdFunc
		}{{"none", nil}, {"reader", holdReader}, {"writer", holdWriter}, {"publisher", holdPublisher}} {
			one := bench.Case{Name: c.name + ", " + k.name, Run: func(ctx context.Context, b *bench.Bed) (bench.Sample, error) {
				return b.Drain(ctx, bench.Drain{Backlog: bench.Backlog{Rows: b.Rows / 2, Keys: k.keys}, Hold: c.hold})
			}}
			if c.hold != nil {
				one.Compare = compareClaims("of none", none)
			}
			sc.Cases = append(sc.Cases, one)
		}
	}
	return sc
}

// compareClaims compares the rate and the server's time per claim.
func compareClaims(heading, base string) []bench.Comparison {
	return append(bench.Of(heading, base), bench.Comparison{Heading: "claim " + heading, Base: base, Figure: "claim ms"})
}
