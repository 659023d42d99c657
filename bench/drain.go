package main

import (
	"context"

	"github.com/outboxrelay/outbox/internal/bench"
)

func drainScenario() bench.Scenario {
	const plain, plainKeyed, loop = "plain, no keys", "plain, 10000 keys", "hand-written, pipelined"
	sc := bench.Scenario{
		Name: "drain", Rate: "msg/s",
		About: "a backlog to a sink that does nothing, beside plain SQL that reads the same rows in pages and deletes them, and loops of a page of code",
		Cases: []bench.Case{
			{Name: plain, Run: byLoop(0, bench.Plain)},
			{Name: plainKeyed, Run: byLoop(manyKeys, bench.Plain)},
			{Name: "hand-written, serial", Compare: bench.Of("of plain", plain), Run: byLoop(0, handWritten(bench.HandWritten))},
			{Name: loop, Compare: bench.Of("of plain", plain), Run: byLoop(0, handWritten(bench.Pipelined))},
		},
	}
	for _, c := range []struct {
		keyed
		base string
	}{{keyed{"no keys", 0}, plain}, {keyed{"1 key", 1}, plainKeyed}, {keyed{"1000 keys", 1000}, plainKeyed}, {keyed{"10000 keys", manyKeys}, plainKeyed}} {
		sc.Cases = append(sc.Cases, bench.Case{Name: c.name,
			Compare: append(bench.Of("of plain", c.base), bench.Of("of loop", loop)...),
			Run: func(ctx context.Context, b *bench.Bed) (bench.Sample, error) {
				return b.Drain(ctx, bench.Drain{Backlog: bench.Backlog{Rows: b.Rows, Keys: c.keys}})
			}})
	}
	return sc
}

func byLoop(keys int, loop func(bench.Backlog) bench.Loop) runFunc {
	return func(ctx context.Context, b *bench.Bed) (bench.Sample, error) {
		return b.DrainByLoop(ctx, loop(bench.Backlog{Rows: b.Rows, Keys: keys}))
	}
}

// handWritten publishes to nowhere.
func handWritten(loop func(bench.Backlog, bench.Target) bench.Loop) func(bench.Backlog) bench.Loop {
	return func(l bench.Backlog) bench.Loop { return loop(l, nil) }
}
