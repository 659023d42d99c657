package sqlitestore

import (
	"slices"
	"sync"
	"time"

	"github.com/outboxrelay/outbox"
)

// laneName is one lane of one relay.
type laneName struct {
	relay       outbox.ID
	destination string
}

// lane remembers how far the claims of a lane have come, so that one does not walk again over what cannot be claimed:
// messages behind a held key, of other lanes' topics. It decides nothing: what may be claimed is asked of the database
// each time, and what is remembered wrongly is found at the next pass over everything.
//
// Nothing is ever published below a place that was looked at, because SQLite has one writer at a time.
type lane struct {
	mu sync.Mutex

	change int64  // the outbox's count at the last claim
	closed string // the topics that were closed then
	now    int64  // the time of it

	high    int64     // ready messages up to here were looked at
	pass    int64     // a second look has come to here; it ends at high
	due     place     // waiting messages up to here were looked at
	began   time.Time // the look at waiting messages, by the process's own clock
	skipped skippedKeys
}

// place is one in the order of outbox_waiting_available.
type place struct{ at, seq int64 }

// lane returns what is remembered of a lane.
func (s *Store) lane(relay outbox.ID, destination string) *lane {
	s.mu.Lock()
	defer s.mu.Unlock()
	name := laneName{relay, destination}
	l := s.lanes[name]
	if l == nil {
		l = &lane{change: -1}
		s.lanes[name] = l
	}
	return l
}

// forgetLanes is for a relay that is gone.
func (s *Store) forgetLanes(relay outbox.ID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name := range s.lanes {
		if name.relay == relay {
			delete(s.lanes, name)
		}
	}
}

// skip has keys continued by the lanes of a destination.
func (s *Store) skip(destination string, keys []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, l := range s.lanes {
		if name.destination != destination {
			continue
		}
		l.mu.Lock()
		for _, key := range keys {
			l.skipped.front(key)
		}
		l.mu.Unlock()
	}
}

// forget is for what was remembered of a transaction that was not made.
func (l *lane) forget() {
	l.change, l.high, l.pass, l.due = -1, 0, 0, place{}
}

// duePass is how long what is due is looked for behind the place that was come to only. When the clock is put back by less
// than the time between two claims, which shows nowhere, messages get times that lie before that place.
const duePass = 30 * time.Second

// look begins a new pass if something has changed that may free messages anywhere.
func (l *lane) look(change int64, closed string, now int64) {
	changed := change != l.change || closed != l.closed || now < l.now
	if changed {
		l.pass = 0
	}
	if changed || time.Since(l.began) > duePass {
		l.due, l.began = place{}, time.Now()
	}
	l.change, l.closed, l.now = change, closed, now
}

// passed notes that a due message was looked at. One of this very millisecond is looked at again: others may get the
// same time after it.
func (l *lane) passed(p place) {
	if p.at < l.now {
		l.due = p
	}
}

// skippedKeys are keys that have messages in places that were looked at: somebody held the key then. They are asked for
// in turn until nothing is left of them.
type skippedKeys struct {
	known  map[string]bool
	urgent []string // their holders have been settled
	queue  []string
}

const (
	// maxSkippedKeys bounds the memory. A key that finds no room is found again by the next pass.
	maxSkippedKeys = 100_000
	// keysPerClaim bounds what a claim asks for.
	keysPerClaim = 32
)

func (k *skippedKeys) add(key string) {
	if k.known[key] || len(k.known) >= maxSkippedKeys {
		return
	}
	if k.known == nil {
		k.known = map[string]bool{}
	}
	k.known[key] = true
	k.queue = append(k.queue, key)
}

// front asks for a key first: its holder has been settled.
func (k *skippedKeys) front(key string) {
	k.add(key)
	k.urgent = append(k.urgent, key)
}

func (k *skippedKeys) len() int { return len(k.urgent) + len(k.queue) }

// take returns the next keys to ask for, at most so many. They are forgotten unless they are added again.
func (k *skippedKeys) take(most int) (keys []string) {
	for len(keys) < most {
		key, ok := k.next()
		if !ok {
			return keys
		}
		keys = append(keys, key)
	}
	return keys
}

// putBack has keys asked for next that were taken, and not asked for.
func (k *skippedKeys) putBack(keys []string) {
	for _, key := range keys {
		if k.known == nil {
			k.known = map[string]bool{}
		}
		k.known[key] = true
	}
	k.urgent = append(slices.Clone(keys), k.urgent...)
}

// next returns the next key to ask for. It is forgotten unless it is added again.
func (k *skippedKeys) next() (key string, ok bool) {
	for k.len() > 0 {
		from := &k.queue
		if len(k.urgent) > 0 {
			from = &k.urgent
		}
		key, *from = (*from)[0], (*from)[1:]
		if k.known[key] { // else it was in both
			delete(k.known, key)
			return key, true
		}
	}
	return "", false
}
