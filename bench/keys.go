package main

import (
	"context"

	"github.com/outboxrelay/outbox/internal/bench"
)

const manyKeys = 10_000

// keyed is a number of keys by name.
type keyed struct {
	name string
	keys int
}

// someKeys are the two cases of most scenarios.
func someKeys() []keyed { return []keyed{{"no keys", 0}, {"10000 keys", manyKeys}} }

type runFunc = func(ctx context.Context, b *bench.Bed) (bench.Sample, error)
