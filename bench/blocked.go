package main

import (
	"context"

	"github.com/outboxrelay/outbox/internal/bench"
)

func blockedScenario() bench.Scenario {
	sc := bench.Scenario{
		Name: "blocked", Rate: "msg/s", Rounds: 3,
		About: "half a backlog, with nothing else in the table; with as many followers of a blocked key in front of it, or among it; with three times as many messages in front of a topic that nobody handles",
	}
	for _, k := range someKeys() {
		alone := "alone, " + k.name
		for _, c := range []struct {
			name  string
			front func(l bench.Backlog) bench.Backlog
		}{
			{"alone", func(l bench.Backlog) bench.Backlog { return l }},
			{"blocked key in front", func(l bench.Backlog) bench.Backlog { l.Front, l.Blocked = l.Rows, true; return l }},
			{"blocked key among", func(l bench.Backlog) bench.Backlog { l.Front, l.Blocked, l.Among = l.Rows, true, true; return l }},
			{"unhandled topic in front", func(l bench.Backlog) bench.Backlog { l.Front = 3 * l.Rows; return l }},
		} {
			one := bench.Case{Name: c.name + ", " + k.name, Run: func(ctx context.Context, b *bench.Bed) (bench.Sample, error) {
				return b.Drain(ctx, bench.Drain{Backlog: c.front(bench.Backlog{Rows: b.Rows / 2, Keys: k.keys}), Topics: []string{bench.Topic}})
			}}
			if one.Name != alone {
				one.Compare = compareClaims("of alone", alone)
			}
			sc.Cases = append(sc.Cases, one)
		}
	}
	return sc
}
