package outboxtest

import (
	"cmp"
	"slices"
	"time"

	"github.com/outboxrelay/outbox"
)

// Archived is a message that has ended and is kept; one that was replayed is there once per generation.
type Archived struct {
	Message     outbox.Message // read-only; Payload is nil WithoutPayload
	Seq         int64
	PublishedAt time.Time
	EndedAt     time.Time
	State       outbox.State // how it has ended
	Detail      string       // why it was dropped or discarded
	Actor       string       // who discarded it
	Destination string       // that it was delivered to
	Attempts    int          // the one that delivered it included
	Generation  int
}

// Archived lists what is kept of messages that have ended, in publish order; see WithArchive.
func (s *Store) Archived() []Archived {
	b := s.box
	b.mu.Lock()
	defer b.mu.Unlock()
	list := slices.Clone(b.archive)
	slices.SortFunc(list, func(a, b Archived) int {
		return cmp.Or(cmp.Compare(a.Seq, b.Seq), cmp.Compare(a.Generation, b.Generation))
	})
	return list
}

// keep archives a message that ends.
func (b *box) keep(r *row, state outbox.State, a Archived) {
	if !b.archives {
		return
	}
	a.Message, a.Seq, a.PublishedAt, a.EndedAt, a.State, a.Generation = r.Message, r.seq, r.publishedAt, b.now(), state, r.generation
	a.Destination = cmp.Or(a.Destination, r.destination)
	a.Attempts = r.attempts
	if state == outbox.StateDelivered || state == outbox.StateDropped {
		a.Attempts++
	}
	if b.bare {
		a.Message.Payload = nil
	}
	b.rules.archived(b, &a)
	b.archive = append(b.archive, a)
}

// matches reports whether a filter means the archived message. Age counts from its end.
func (a *Archived) matches(f outbox.Filter, now time.Time) bool {
	r := &row{Message: a.Message, publishedAt: a.EndedAt, text: a.Detail}
	meant := f.States == nil || slices.Contains(f.States, a.State)
	f.States = nil
	return meant && f.Class == "" && r.matches(f, now)
}

// newest returns the archived messages that a replay means, each in its last generation, in publish order.
func (b *box) newest(f outbox.Filter, now time.Time) []Archived {
	last := map[int64]Archived{}
	meant := map[int64]bool{}
	for _, a := range b.archive {
		if have, ok := last[a.Seq]; !ok || a.Generation > have.Generation {
			last[a.Seq] = a
		}
		meant[a.Seq] = meant[a.Seq] || a.matches(f, now)
	}
	var list []Archived
	for seq, a := range last {
		if meant[seq] {
			list = append(list, a)
		}
	}
	slices.SortFunc(list, func(a, b Archived) int { return cmp.Compare(a.Seq, b.Seq) })
	return list
}

// replayed is an archived message that waits again, for one destination.
func (b *box) replayed(a Archived, destination string) *row {
	return &row{
		Message: a.Message, seq: a.Seq, publishedAt: a.PublishedAt, state: waiting, availableAt: b.now(), holds: a.Message.Key != "",
		generation: a.Generation + 1, destination: destination,
	}
}
