package outboxtest

import (
	"context"
	"time"

	"github.com/outboxrelay/outbox"
)

// name is what only one message may have: a dedup key within its topic, or, with an empty topic, an id that
// its caller chose.
type name struct{ topic, key string }

func (n name) isID() bool { return n.topic == "" }

func namesOf(m outbox.Message, ownID bool) []name {
	var names []name
	if ownID {
		names = append(names, name{"", m.ID.String()})
	}
	if m.DedupKey != "" {
		names = append(names, name{m.Topic, m.DedupKey})
	}
	return names
}

// reservation is a taken name.
type reservation struct {
	seq     int64
	expires time.Time
	tx      *Tx // nil once committed
}

// isTaken tells whether a message has the name, or which open transaction may be about to take it.
func (b *box) isTaken(n name, by *Tx) (taken bool, rival *Tx) {
	r := b.names[n]
	switch {
	case r == nil:
		return false, nil
	case r.tx != nil && r.tx != by:
		return false, r.tx
	case r.tx == by:
		return true, nil
	}
	return !b.isFree(r), nil
}

// isFree reports whether a committed name's message is gone, and its window over.
func (b *box) isFree(r *reservation) bool {
	return r.tx == nil && b.rows[r.seq] == nil && !b.now().Before(r.expires)
}

func (b *box) reserve(n name, r *row, tx *Tx) {
	b.names[n] = &reservation{seq: r.seq, expires: r.publishedAt.Add(b.dedupWindow), tx: tx}
	tx.names = append(tx.names, n)
}

// Maintain forgets names that are free, at most q.Limit of them.
func (s *Store) Maintain(ctx context.Context, q outbox.MaintainQuery) (outbox.MaintainReport, error) {
	if err := ctx.Err(); err != nil {
		return outbox.MaintainReport{}, err
	}
	b := s.box
	b.mu.Lock()
	defer b.mu.Unlock()
	var report outbox.MaintainReport
	for n, r := range b.names {
		if !b.isFree(r) {
			continue
		}
		if report.DedupExpired == q.Limit {
			report.More = true
			break
		}
		delete(b.names, n)
		report.DedupExpired++
	}
	return report, nil
}
