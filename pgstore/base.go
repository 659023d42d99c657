package pgstore

import (
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outboxrelay/outbox"
)

// base is what a lane knows of the keyed messages below its floor, so that a claim need not look for an older message of
// every key: of the lane's topics nothing is left in message below base, and below high only messages of the known keys.
//
// A row of message is inserted once and never again, so what is not there once all that were drawing seqs below a mark
// have ended will never be there. All seqs below a mark have been drawn: it is a floor, and not above the sequence. Whoever
// draws a seq for message has a lock on it since before (TestLateMessageOfADedupKey), so the transactions that hold one after that
// include all that had drawn a seq and not ended; when none of them holds it any more, what is left below the mark can be read.
//
// A crash of the database may undo rows that were seen and draw their seqs again, and so may a failover. Both end every
// connection: what is known counts on connections that were there when the mark was set (TestBaseAfterCrash), and on them
// for the backend that they had then. A lane starts over every few minutes, too.
type base struct {
	base, high int64
	known      []string
	since      int64     // connections numbered later know nothing of base and high
	whole      time.Time // from then on what is left is read from base on, and not from high
	born       time.Time

	mark      int64 // becomes high; 0: none is set
	writers   []string
	markSince int64
	looked    time.Time
}

// Bounds of what is known.
const (
	baseInterval = 50 * time.Millisecond // between looks
	baseWhole    = 2 * baseInterval      // at least between readings from base on
	baseLife     = 5 * time.Minute
	maxKnownKeys = 500
)

// bound is the part of a base that a claim asks with.
type bound struct {
	base, high int64
	known      []string
}

// on returns what is known on a connection.
func (b *base) on(l *ledger) bound {
	if l.since > b.since {
		return bound{}
	}
	return bound{b.base, b.high, b.known}
}

// baseLook is one look at what is left.
type baseLook struct {
	from, mark  int64
	writers     []string
	floor       int64 // the next mark is here, or below
	anew        bool  // base is nothing on the connection
	connections int64 // so many there were
	expected    int32 // backend
	began       time.Time

	backend *int32
	next    *int64   // mark …
	held    []string // … and its writers
	ended   *bool    // those of the mark before have …
	keys    []string // … and this is left below that; nil or more than the bound: too much to know
	lowest  *int64   // the first of it, or the mark
}

// look returns what to ask now; nil: nothing.
func (b *base) look(now time.Time, floor int64) *baseLook {
	if now.Sub(b.looked) < baseInterval || floor <= b.high {
		return nil
	}
	if now.Sub(b.born) > baseLife {
		*b = base{born: now}
	}
	b.looked = now
	look := &baseLook{from: b.high, mark: b.mark, writers: b.writers, floor: floor, began: now}
	if now.After(b.whole) {
		look.from = b.base
	}
	return look
}

// on adapts a look to a connection. One that has come since the mark cannot say what is left below it, and for one that
// has come since base and high they are nothing.
func (k *baseLook) on(l *ledger, b *base, connections int64) {
	k.connections, k.expected = connections, l.backend
	switch {
	case l.since > b.markSince:
		k.mark = 0
	case l.since > b.since:
		k.from, k.anew = 0, true
	}
}

// learn takes over what a look has found.
func (b *base) learn(k *baseLook, now time.Time) {
	if k.ended == nil || !*k.ended || k.mark > 0 && *k.backend != k.expected {
		return
	}
	if k.mark > 0 {
		b.raise(k, now)
	}
	b.mark, b.writers, b.markSince = *k.next, k.held, k.connections
}

func (b *base) raise(k *baseLook, now time.Time) {
	if k.anew {
		b.base, b.high, b.known = 0, 0, nil
	}
	known := k.keys
	if k.from > b.base {
		known = append(slices.Clone(b.known), k.keys...)
		slices.Sort(known)
		known = slices.Compact(known)
	} else {
		b.base = *k.lowest
		b.whole = now.Add(max(baseWhole, sweepShare*now.Sub(k.began)))
	}
	if k.keys != nil && len(known) <= maxKnownKeys {
		b.high, b.known = k.mark, known
	} else if b.base > b.high {
		b.high, b.known = b.base, nil
	}
	if len(b.known) == 0 {
		b.base = b.high
	}
	b.since = b.markSince
}

func (k *baseLook) scan(rows pgx.Rows) error {
	return rows.Scan(&k.backend, &k.next, &k.held, &k.ended, &k.keys, &k.lowest)
}

// lookCall asks what is left.
func (s *Store) lookCall(q outbox.ClaimQuery, k *baseLook) []call {
	return s.transaction(call{s.sql.belowMark,
		[]any{q.Relay, q.Destination, k.from, k.mark, orEmpty(k.writers), k.floor, maxKnownKeys}, k.scan})
}
