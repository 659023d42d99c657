package pgstore

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

// Keys that this relay releases all the time must not keep the others out.
func TestReleasedKeysLeaveRoomForOthers(t *testing.T) {
	keys := newSkippedKeys()
	for i := range 500 {
		keys.add(fmt.Sprint("hot ", i))
	}
	for len(keys.active) > 0 {
		keys.take(time.Now(), maxKeysPerCall)
	}
	for i := range 500 {
		keys.release(fmt.Sprint("hot ", i))
	}
	keys.add("other")
	for range 10 {
		asked := keys.take(time.Now(), maxKeysPerCall)
		if len(asked) != maxKeysPerCall {
			t.Fatalf("asked for %d keys", len(asked))
		}
		if slices.Contains(asked, "other") {
			return
		}
		for _, key := range asked {
			keys.again([]string{key})
			keys.release(key)
		}
	}
	t.Error("a key waits behind keys that are released again and again")
}

// TestReleasedKeysNeedNoWindow: where the relay has released enough keys to fill a claim, windows do not run ahead of what can be
// taken, and for the sake of other keys some are looked at all the same.
func TestReleasedKeysNeedNoWindow(t *testing.T) {
	const limit = 500
	l := newLane()
	release := func(n int) {
		for i := range n {
			l.skip(fmt.Sprint(i))
			l.release(fmt.Sprint(i))
		}
	}
	release(10)
	if p := l.next(limit, 1<<20, 0); p.window == 0 || len(p.keys) != 10 {
		t.Fatalf("10 keys released: a window of %d rows and %d keys, want a window and the keys", p.window, len(p.keys))
	}
	windows := 0
	for range 4 * maxWindowless {
		release(limit)
		p := l.next(limit, 1<<20, 0)
		switch {
		case p.window > 0:
			windows++
		case len(p.keys) != limit/2:
			t.Fatalf("no window, and %d keys", len(p.keys))
		}
	}
	if windows != 3 {
		t.Errorf("%d windows in %d claims, want 3", windows, 4*maxWindowless)
	}
	release(limit)
	l.windowless = 0
	if p := l.next(1, 1<<20, 0); len(p.keys) != 1 {
		t.Errorf("one slot is free: %d keys, want one", len(p.keys))
	}
}
