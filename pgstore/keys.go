package pgstore

import (
	"container/heap"
	"time"
)

// skippedKeys are the keys of a lane that have rows below its floor: the window has passed them while somebody
// held the key. They are continued by index, key by key, until a claim reports that nothing is left.
//
// A key that a claim holds is asked for with every claim, which costs a hash lookup. One whose head is waiting
// or dead costs index probes, so it is asked for at growing intervals, and at once when this relay settles a
// message of it.
type skippedKeys struct {
	known   map[string]*skippedKey
	urgent  []string // released by this relay
	active  []string
	blocked keyHeap
}

type skippedKey struct {
	queued  bool // in urgent or active
	backoff time.Duration
}

// Bounds of the list. A key that finds no room is found again by the sweep.
const (
	maxSkippedKeys = 100_000
	maxKeysPerCall = 64
	blockedFirst   = 20 * time.Millisecond
	blockedLongest = time.Second
)

func newSkippedKeys() *skippedKeys { return &skippedKeys{known: map[string]*skippedKey{}} }

// add makes sure that a key will be continued.
func (k *skippedKeys) add(key string) {
	if _, known := k.known[key]; known || len(k.known) >= maxSkippedKeys {
		return
	}
	k.known[key] = &skippedKey{queued: true}
	k.active = append(k.active, key)
}

// release puts a key in front, if it is known: its head has been settled.
func (k *skippedKeys) release(key string) {
	state, known := k.known[key]
	if !known {
		return
	}
	state.queued, state.backoff = true, 0
	k.urgent = append(k.urgent, key)
}

// take returns the keys to ask for with this claim, without duplicates. Each must be given to again, block or end
// afterwards, or it is not asked for again.
func (k *skippedKeys) take(now time.Time, limit int) []string {
	for len(k.blocked) > 0 && !k.blocked[0].until.After(now) {
		key := heap.Pop(&k.blocked).(blockedKey).key
		if state, known := k.known[key]; known && !state.queued {
			state.queued = true
			k.active = append(k.active, key)
		}
	}
	// Those in front must not keep the others waiting for ever.
	var keys []string
	keys, k.urgent = k.pick(keys, k.urgent, limit*3/4)
	keys, k.active = k.pick(keys, k.active, limit)
	keys, k.urgent = k.pick(keys, k.urgent, limit)
	return keys
}

// releasedAtLeast reports whether so many keys were released since they were asked for.
func (k *skippedKeys) releasedAtLeast(n int) bool { return len(k.urgent) >= n }

// pick moves keys from a queue to the list. A key that is in both queues is no longer marked when it comes up
// for the second time.
func (k *skippedKeys) pick(keys, queue []string, limit int) (picked, rest []string) {
	for len(queue) > 0 && len(keys) < limit {
		key := queue[0]
		queue = queue[1:]
		if state, known := k.known[key]; known && state.queued {
			state.queued = false
			keys = append(keys, key)
		}
	}
	return keys, queue
}

// again queues keys that were asked for and may have more.
func (k *skippedKeys) again(keys []string) {
	for _, key := range keys {
		if state, known := k.known[key]; known && !state.queued {
			state.queued, state.backoff = true, 0
			k.active = append(k.active, key)
		}
	}
}

// block lets keys rest.
func (k *skippedKeys) block(keys []string, now time.Time) {
	for _, key := range keys {
		state, known := k.known[key]
		if !known || state.queued {
			continue
		}
		state.backoff = min(max(2*state.backoff, blockedFirst), blockedLongest)
		heap.Push(&k.blocked, blockedKey{key, now.Add(state.backoff)})
	}
}

// wake ends the rest of all keys: somebody has told that something was freed.
func (k *skippedKeys) wake() {
	for i := range k.blocked {
		k.blocked[i].until = time.Time{}
	}
}

// end forgets keys.
func (k *skippedKeys) end(keys []string) {
	for _, key := range keys {
		delete(k.known, key)
	}
}

// pending reports whether keys wait to be asked for that this relay itself has released.
func (k *skippedKeys) pending() bool { return len(k.urgent) > 0 }

type blockedKey struct {
	key   string
	until time.Time
}

type keyHeap []blockedKey

func (h keyHeap) Len() int           { return len(h) }
func (h keyHeap) Less(i, j int) bool { return h[i].until.Before(h[j].until) }
func (h keyHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *keyHeap) Push(x any)        { *h = append(*h, x.(blockedKey)) }
func (h *keyHeap) Pop() any {
	last := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return last
}
