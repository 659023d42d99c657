package main

import (
	"context"
	"fmt"
)

func relaysScenario() scenario {
	sc := scenario{
		name: "relays", rate: "msg/s", ratio: "of one relay",
		about: "half a backlog, drained by several relays in one process, each with a pool of its own",
	}
	for _, keys := range []struct {
		name string
		n    int
	}{{"no keys", 0}, {"10000 keys", manyKeys}} {
		name := func(relays int) string { return fmt.Sprintf("%d, %s", relays, keys.name) }
		for _, relays := range []int{1, 2, 4} {
			c := benchCase{name: name(relays), run: func(ctx context.Context, b *bench) (sample, error) {
				return b.drain(ctx, drainRun{rows: b.opt.rows / 2, keys: keys.n, relays: relays, slots: drainSlots})
			}}
			if relays > 1 {
				c.base = name(1)
			}
			sc.cases = append(sc.cases, c)
		}
	}
	return sc
}
