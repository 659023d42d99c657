package outboxtest

import (
	"slices"
	"time"

	"github.com/outboxrelay/outbox"
)

// Counts tells how many committed messages there are, and how many have ended.
type Counts struct {
	Ready   int // to be delivered, those in delivery included
	Waiting int // scheduled or backing off, those in delivery included
	Dead    int
	Claimed int // of the ready and waiting: held by a relay or given back

	Delivered, Dropped, Expired, Discarded int
}

// Counts counts now.
func (s *Store) Counts() Counts {
	b := s.box
	b.mu.Lock()
	defer b.mu.Unlock()
	c := Counts{
		Delivered: b.ended[outbox.Delivered],
		Dropped:   b.ended[outbox.Dropped],
		Expired:   b.ended[outbox.Expired],
		Discarded: b.discarded,
	}
	for _, r := range b.rows {
		switch r.state {
		case ready:
			c.Ready++
		case waiting:
			c.Waiting++
		case dead:
			c.Dead++
		}
		if r.claim != nil {
			c.Claimed++
		}
	}
	return c
}

// Claims counts the claims, those of messages given back included.
func (s *Store) Claims() int {
	s.box.mu.Lock()
	defer s.box.mu.Unlock()
	return len(s.box.claims)
}

// DeadLetter is a message that is given up.
type DeadLetter struct {
	Message     outbox.Message // read-only
	Seq         int64
	PublishedAt time.Time
	Attempts    int
	Class, Text string // of the last error
	Holds       bool   // its key: younger messages wait until it is redriven or discarded
}

// Dead lists the dead letters in publish order.
func (s *Store) Dead() []DeadLetter {
	b := s.box
	b.mu.Lock()
	defer b.mu.Unlock()
	var rows []*row
	for _, r := range b.rows {
		if r.state == dead {
			rows = append(rows, r)
		}
	}
	slices.SortFunc(rows, bySeq)
	letters := make([]DeadLetter, len(rows))
	for i, r := range rows {
		letters[i] = DeadLetter{
			Message: r.Message, Seq: r.seq, PublishedAt: r.publishedAt,
			Attempts: r.attempts, Class: r.class, Text: r.text, Holds: r.holds,
		}
	}
	return letters
}
