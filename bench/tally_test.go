package main

import (
	"context"
	"errors"
	"testing"
	"time"
)

func TestTally(t *testing.T) {
	for _, c := range []struct {
		name    string
		keys    int
		deliver []int64
		left    int64
		want    faults
	}{
		{"all in order", 2, []int64{1, 2, 3, 4}, 0, faults{}},
		{"keys do not mind each other", 2, []int64{2, 1, 4, 3}, 0, faults{}},
		{"lost", 2, []int64{1, 2, 3}, 0, faults{lost: 1}},
		{"delivered and still there", 2, []int64{1, 2, 3, 4}, 2, faults{lost: 2}},
		{"duplicate", 2, []int64{1, 2, 3, 4, 1}, 0, faults{duplicates: 1}},
		{"disorder", 2, []int64{3, 1, 2, 4}, 0, faults{disorder: 1}},
		{"no order without keys", 0, []int64{4, 3, 2, 1}, 0, faults{}},
	} {
		tally := newTally(4, c.keys)
		for _, i := range c.deliver {
			tally.deliver(i)
		}
		if got := tally.faults(c.left); got != c.want {
			t.Errorf("%s: faults %+v, want %+v", c.name, got, c.want)
		}
	}
}

func TestTallyWait(t *testing.T) {
	tally := newTally(2, 0)
	if err := tally.wait(t.Context(), nil, time.Millisecond); err != nil {
		t.Errorf("stalled: %v, want to return and let the faults tell", err)
	}
	failed := make(chan error, 1)
	boom := errors.New("boom")
	failed <- boom
	if err := tally.wait(t.Context(), failed, time.Hour); !errors.Is(err, boom) {
		t.Errorf("a relay failed: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := tally.wait(ctx, nil, time.Hour); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	tally.settle()
	tally.settle()
	if err := tally.wait(t.Context(), nil, time.Hour); err != nil {
		t.Errorf("all settled: %v", err)
	}
}
