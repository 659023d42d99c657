package bench

import (
	"runtime"
	"testing"
	"time"
)

// TestMemory: what was used for a moment is seen.
func TestMemory(t *testing.T) {
	const size = 64 << 20
	m := watchMemory(t.Context())
	before := m.heap.Load()
	held := make([]byte, size)
	for i := range held {
		held[i] = 1
	}
	// The heap has it from its allocation on, the machine from the first write.
	seen := func() bool { return m.heap.Load() >= before+size && (m.rss.Load() < 0 || m.rss.Load() >= size) }
	for deadline := time.Now().Add(30 * time.Second); !seen(); time.Sleep(memoryInterval) {
		if time.Now().After(deadline) {
			t.Fatalf("the heap was %d and is %d; %d bytes more were not seen", before, m.heap.Load(), size)
		}
	}
	runtime.KeepAlive(held)
	runtime.GC()
	if heap, rss := m.stop(); heap < before+size || rss >= 0 && rss < size {
		t.Errorf("heap %d, rss %d at most", heap, rss)
	}
}
