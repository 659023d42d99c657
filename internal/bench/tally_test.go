package bench

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
		arrived int64
		want    Faults
	}{
		{"all in order", 2, []int64{1, 2, 3, 4}, 0, Unknown, Faults{}},
		{"keys do not mind each other", 2, []int64{2, 1, 4, 3}, 0, Unknown, Faults{}},
		{"lost", 2, []int64{1, 2, 3}, 0, Unknown, Faults{Lost: 1}},
		{"delivered and still there", 2, []int64{1, 2, 3, 4}, 2, Unknown, Faults{Lost: 2}},
		{"duplicate", 2, []int64{1, 2, 3, 4, 1}, 0, Unknown, Faults{Duplicates: 1}},
		{"disorder", 2, []int64{3, 1, 2, 4}, 0, Unknown, Faults{Disorder: 1}},
		{"had to wait", 2, []int64{1, 2, 3, 4, 0}, 0, Unknown, Faults{Disorder: 1}},
		{"nobody's", 2, []int64{1, 2, 3, 4, 5}, 0, Unknown, Faults{Disorder: 1}},
		{"acknowledged and not there", 2, []int64{1, 2, 3, 4}, 0, 3, Faults{Lost: 1}},
		{"there twice", 2, []int64{1, 2, 3, 4}, 0, 6, Faults{Duplicates: 2}},
		{"no order without keys", 0, []int64{4, 3, 2, 1}, 0, Unknown, Faults{}},
	} {
		tally := NewTally(4, c.keys)
		for _, i := range c.deliver {
			tally.Deliver(i)
		}
		if got := tally.Faults(c.left, c.arrived); got != c.want {
			t.Errorf("%s: faults %+v, want %+v", c.name, got, c.want)
		}
	}
}

// TestTallyUntil: a run that ends early has lost what is neither delivered nor in the outbox.
func TestTallyUntil(t *testing.T) {
	tally := NewTally(4, 0)
	tally.Until(2)
	for i := range int64(3) {
		tally.Deliver(i + 1)
		tally.Settle(1)
	}
	if err := tally.Wait(t.Context(), nil, time.Hour); err != nil {
		t.Error(err)
	}
	for left, want := range map[int64]Faults{1: {}, 0: {Lost: 1}, 2: {Lost: 1}} {
		if got := tally.Faults(left, Unknown); got != want {
			t.Errorf("%d left: faults %+v, want %+v", left, got, want)
		}
	}
}

func TestTallyWait(t *testing.T) {
	tally := NewTally(2, 0)
	if err := tally.Wait(t.Context(), nil, time.Millisecond); err != nil {
		t.Errorf("stalled: %v, want to return and let the faults tell", err)
	}
	failed := make(chan error, 1)
	boom := errors.New("boom")
	failed <- boom
	if err := tally.Wait(t.Context(), failed, time.Hour); !errors.Is(err, boom) {
		t.Errorf("a relay failed: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := tally.Wait(ctx, nil, time.Hour); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	tally.Settle(1)
	tally.Settle(1)
	if err := tally.Wait(t.Context(), nil, time.Hour); err != nil {
		t.Errorf("all settled: %v", err)
	}
}
