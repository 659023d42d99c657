package main

import (
	"context"
	"fmt"

	"github.com/outboxrelay/outbox/internal/bench"
)

// backlogScenario delivers the same number of messages from backlogs of any size: the first ones.
func backlogScenario() bench.Scenario {
	sc := bench.Scenario{
		Name: "backlog", Rate: "msg/s", Rounds: 2,
		About: "the first quarter of a backlog's messages from a table that has only them, and from ones that are larger, the largest only with -large; and a sixteenth with payloads of 16 KiB",
	}
	for _, k := range []keyed{{"no keys", 0}, {"10000 keys", manyKeys}} {
		alone := "only them, " + k.name
		for _, times := range []int{1, 2, 20, 200} {
			c := bench.Case{Name: fmt.Sprintf("%d times as many, %s", times, k.name), Compare: compareClaims("of only them", alone),
				Run: firstOf(times, 4, bench.Backlog{Keys: k.keys})}
			if times == 1 {
				c.Name, c.Compare = alone, nil
			}
			sc.Cases = append(sc.Cases, c)
		}
	}
	const alone = "only them, 16 KiB"
	for _, c := range []struct {
		name    string
		times   int
		compare []bench.Comparison
	}{{alone, 1, nil}, {"4 times as many, 16 KiB", 4, compareClaims("of only them", alone)}} {
		sc.Cases = append(sc.Cases, bench.Case{Name: c.name, Compare: c.compare, Run: firstOf(c.times, 16, bench.Backlog{Payload: 16 << 10})})
	}
	return sc
}

// firstOf delivers a share of the backlog from one that is so many times as large.
func firstOf(times, share int, l bench.Backlog) runFunc {
	return func(ctx context.Context, b *bench.Bed) (bench.Sample, error) {
		if times > 100 && !b.Large {
			return bench.Sample{}, bench.ErrSkipped
		}
		n := b.Rows / share
		l.Rows = n * times
		return b.Drain(ctx, bench.Drain{Backlog: l, Until: n, Memory: true})
	}
}
