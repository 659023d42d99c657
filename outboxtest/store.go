package outboxtest

import (
	"sync"
	"time"

	"github.com/outboxrelay/outbox"
)

// Store is an outbox in memory and implements [outbox.Store]. It lives as long as the value. All methods may
// be called concurrently.
type Store struct {
	box *box
}

var _ outbox.Store = (*Store)(nil)

// Option changes a default of NewStore.
type Option func(*box)

// WithClock replaces time.Now as the clock that the outbox goes by, for leases, delays and expiry. It must be
// safe for concurrent use.
func WithClock(now func() time.Time) Option { return func(b *box) { b.now = now } }

// WithMaxPayload replaces outbox.DefaultMaxPayload, in bytes.
func WithMaxPayload(n int) Option { return func(b *box) { b.maxPayload = n } }

// WithDedupWindow keeps dedup keys and ids taken for at least this long after publishing, even when the
// message is gone. Default 0.
func WithDedupWindow(d time.Duration) Option { return func(b *box) { b.dedupWindow = d } }

// WithArchive keeps messages that have ended, for ever, so that they can be replayed; see Store.Archived.
func WithArchive() Option { return func(b *box) { b.archives = true } }

// WithoutPayload makes WithArchive keep messages without payload.
func WithoutPayload() Option { return func(b *box) { b.bare = true } }

// NewStore makes an empty outbox.
func NewStore(options ...Option) *Store {
	b := &box{
		now:    time.Now,
		rules:  soundRules(),
		rows:   map[int64]*row{},
		claims: map[int64]*claim{},
		relays: map[outbox.ID]*relay{},
		names:  map[name]*reservation{},
		ended:  map[outbox.OutcomeKind]int{},
		wake:   make(chan struct{}),
	}
	for _, option := range options {
		option(b)
	}
	return &Store{box: b}
}

// Peer returns another Store on the same outbox, as another process would have.
func (s *Store) Peer() *Store {
	return &Store{box: s.box}
}

// box is the outbox that Stores share. One mutex makes every operation atomic, which is what the single
// transaction of each does in a database.
type box struct {
	now         func() time.Time
	maxPayload  int
	dedupWindow time.Duration
	archives    bool
	bare        bool
	rules       rules

	mu         sync.Mutex
	lastSeq    int64
	lastClaim  int64
	rows       map[int64]*row // committed, and undelivered or dead
	claims     map[int64]*claim
	relays     map[outbox.ID]*relay
	names      map[name]*reservation
	ended      map[outbox.OutcomeKind]int
	discarded  int
	archive    []Archived
	pauses     []outbox.Pause
	operations []*operation // the id is the place, from 1
	notified   uint64
	wake       chan struct{} // closed and replaced by every notification
}
