package demo

import (
	"crypto/sha256"
	"sync"

	"github.com/outboxrelay/outbox"
)

// ledger remembers what became of the application's transactions, by the ids of their messages.
type ledger struct {
	mu        sync.Mutex
	records   map[outbox.ID]*record
	committed int
}

// record is one published message.
type record struct {
	topic, key string
	payload    [sha256.Size]byte
	rolledBack bool
	place      int // among the committed ones; in order for each key, because a key has one writer
	arrived    int
}

func newLedger() *ledger { return &ledger{records: map[outbox.ID]*record{}} }

func newRecord(m *outbox.Message) *record {
	return &record{topic: m.Topic, key: m.Key, payload: sha256.Sum256(m.Payload)}
}

func (l *ledger) commit(id outbox.ID, m *outbox.Message) {
	r := newRecord(m)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.committed++
	r.place = l.committed
	l.records[id] = r
}

func (l *ledger) rollBack(id outbox.ID, m *outbox.Message) {
	r := newRecord(m)
	r.rolledBack = true
	l.mu.Lock()
	defer l.mu.Unlock()
	l.records[id] = r
}

// count is how many are committed so far.
func (l *ledger) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.committed
}
