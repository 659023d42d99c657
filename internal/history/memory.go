package history

import (
	"slices"
	"sync"
	"time"
)

// Memory is a history of processes that are only played, within this one. Its clock is time.Now, which may be that of
// a bubble of package synctest, with a nanosecond more for every event of the same instant, so that no two events have
// the same time. It may be used by any number of goroutines.
type Memory struct {
	mu     sync.Mutex
	last   int64
	events []Event
	dead   map[string]bool
}

// NewMemory makes an empty history.
func NewMemory() *Memory { return &Memory{dead: map[string]bool{}} }

// Log begins the log of a process.
func (m *Memory) Log(process string) *Log { return &Log{process: process, memory: m} }

// Kill notes that the process is killed. What it appends from now on is left out: it is not alive to write it.
func (m *Memory) Kill(process string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.events = append(m.events, Event{At: m.tick(), Kind: Killed, Process: process})
	m.dead[process] = true
}

// Events returns what was appended until now, in that order, which is that of their times.
func (m *Memory) Events() []Event {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.events)
}

// Len counts the events.
func (m *Memory) Len() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.events)
}

func (m *Memory) now() int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.tick()
}

func (m *Memory) tick() int64 {
	m.last = max(m.last+1, time.Now().UnixNano())
	return m.last
}

func (m *Memory) add(l *Log, events []Event) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.dead[l.process] {
		return nil
	}
	for _, e := range events {
		if e.At == 0 {
			e.At = m.tick()
		}
		e, err := l.complete(e)
		if err != nil {
			return err
		}
		m.events = append(m.events, e)
	}
	return nil
}
