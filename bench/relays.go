package main

import (
	"context"
	"fmt"

	"github.com/outboxrelay/outbox/internal/bench"
)

func relaysScenario() bench.Scenario {
	sc := bench.Scenario{
		Name: "relays", Rate: "msg/s", Rounds: 3,
		About: "half a backlog, drained by several relays in one process, each with a pool of its own",
	}
	for _, k := range someKeys() {
		name := func(relays int) string { return fmt.Sprintf("%d, %s", relays, k.name) }
		for _, relays := range []int{1, 2, 4, 16} {
			c := bench.Case{Name: name(relays), Run: func(ctx context.Context, b *bench.Bed) (bench.Sample, error) {
				return b.Drain(ctx, bench.Drain{Backlog: bench.Backlog{Rows: b.Rows / 2, Keys: k.keys}, Relays: relays})
			}}
			if relays > 1 {
				c.Compare = bench.Of("of one relay", name(1))
			}
			sc.Cases = append(sc.Cases, c)
		}
	}
	return sc
}
