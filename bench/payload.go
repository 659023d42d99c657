package main

import (
	"context"

	"github.com/outboxrelay/outbox/internal/bench"
)

func payloadScenario() bench.Scenario {
	sc := bench.Scenario{
		Name: "payload", Rate: "msg/s", Rounds: 3,
		About: "a quarter of a backlog by size of the payload, beside plain SQL over the same rows",
	}
	for _, c := range []struct {
		name  string
		bytes int
	}{{"128 B", 128}, {"512 B", 512}, {"16 KiB", 16 << 10}} {
		plain := "plain, " + c.name
		backlog := func(b *bench.Bed) bench.Backlog { return bench.Backlog{Rows: b.Rows / 4, Payload: c.bytes} }
		sc.Cases = append(sc.Cases,
			bench.Case{Name: plain, Run: func(ctx context.Context, b *bench.Bed) (bench.Sample, error) {
				return b.DrainByLoop(ctx, bench.Plain(backlog(b)))
			}},
			bench.Case{Name: c.name, Compare: bench.Of("of plain", plain), Run: func(ctx context.Context, b *bench.Bed) (bench.Sample, error) {
				return b.Drain(ctx, bench.Drain{Backlog: backlog(b), Memory: true})
			}})
	}
	return sc
}
