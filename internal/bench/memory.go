package bench

import (
	"context"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// memory watches how much of it this process uses, from a collected heap on.
type memory struct {
	cancel    context.CancelFunc
	ended     chan struct{}
	heap, rss atomic.Int64 // highest
}

// memoryInterval is far below the time in which a heap grows, and costs nothing.
const memoryInterval = 20 * time.Millisecond

func watchMemory(ctx context.Context) *memory {
	runtime.GC()
	debug.FreeOSMemory() // what earlier runs used is none of this one's
	ctx, cancel := context.WithCancel(ctx)
	m := &memory{cancel: cancel, ended: make(chan struct{})}
	m.rss.Store(-1)
	m.look()
	go func() {
		defer close(m.ended)
		ticks := time.NewTicker(memoryInterval)
		defer ticks.Stop()
		for {
			select {
			case <-ticks.C:
				m.look()
			case <-ctx.Done():
				return
			}
		}
	}()
	return m
}

func (m *memory) look() {
	heap := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(heap)
	m.heap.Store(max(m.heap.Load(), int64(heap[0].Value.Uint64())))
	m.rss.Store(max(m.rss.Load(), residentBytes()))
}

// stop may be called more than once.
func (m *memory) stop() (heap, rss int64) {
	m.cancel()
	<-m.ended
	return m.heap.Load(), m.rss.Load()
}

// residentBytes is negative where it is unknown.
func residentBytes() int64 {
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return -1
	}
	fields := strings.Fields(string(text))
	if len(fields) < 2 {
		return -1
	}
	pages, err := strconv.ParseInt(fields[1], 10, 64)
	if err != nil {
		return -1
	}
	return pages * int64(os.Getpagesize())
}
