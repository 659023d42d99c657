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
