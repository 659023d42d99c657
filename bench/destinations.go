package main

import (
	"context"

	"github.com/outboxrelay/outbox/internal/bench"
)

// destinationScenario is the same for each broker: another one is another line in scenarios.
func destinationScenario(name string, to bench.Destination) bench.Scenario {
	const memory, loop = "the client alone", "hand-written, pipelined"
	rows := func(b *bench.Bed) int { return b.Rows / 2 }
	byLoop := func(loop func(bench.Backlog, bench.Target) bench.Loop, share int) runFunc {
		return to.With(func(ctx context.Context, b *bench.Bed, target bench.Target) (bench.Sample, error) {
			return b.DrainByLoop(ctx, loop(bench.Backlog{Rows: rows(b) / share}, target))
		})
	}
	sc := bench.Scenario{
		Name: name, Rate: "msg/s", End: to.End,
		About: "half a backlog to " + to.Name + ", every message acknowledged, beside the same client with the same window publishing from memory, " +
			"and loops of a page of code (the serial one with a tenth of the messages)",
		Cases: []bench.Case{
			{Name: memory, Run: to.With(func(ctx context.Context, b *bench.Bed, target bench.Target) (bench.Sample, error) {
				return bench.FromMemory(ctx, rows(b), target)
			})},
			{Name: "hand-written, serial", Compare: bench.Of("of the client", memory), Run: byLoop(bench.HandWritten, 10)},
			{Name: loop, Compare: bench.Of("of the client", memory), Run: byLoop(bench.Pipelined, 1)},
		},
	}
	for _, c := range []keyed{{"no keys", 0}, {"1 key", 1}, {"1000 keys", 1000}} {
		share := 1
		if c.keys == 1 {
			share = 10
		}
		sc.Cases = append(sc.Cases, bench.Case{Name: c.name,
			Compare: append(bench.Of("of the client", memory), bench.Of("of loop", loop)...),
			Run: to.With(func(ctx context.Context, b *bench.Bed, target bench.Target) (bench.Sample, error) {
				return b.Drain(ctx, bench.Drain{Backlog: bench.Backlog{Rows: rows(b) / share, Keys: c.keys}, To: target})
			})})
	}
	return sc
}
