package pgstore

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outboxrelay/outbox"
)

// sweep reads below a lane's floor, page by page from the beginning, and offers what it finds to the next claim.
// A lane that is never idle sweeps as well: what was committed late must not wait for the end of a backlog.
type sweep struct {
	from    int64     // of the next page
	rested  time.Time // no page before
	seen    uint64    // wake-ups when the pass began
	started time.Time // the pass began
}

const (
	sweepRows = 2000
	// sweepEvery is how long a lane that is never idle and never woken goes without a pass.
	sweepEvery = time.Second
	// sweepShare bounds the time spent: after a page, this many times its duration without another.
	sweepShare = 50
)

// due reports whether a page should be read now: a pass is under way, or there was a wake-up since the last one
// began, or it is long ago.
func (w *sweep) due(now time.Time, floor int64, seen uint64) bool {
	if floor == 0 || now.Before(w.rested) {
		return false
	}
	return w.from > 0 || seen != w.seen || now.Sub(w.started) >= sweepEvery
}

// sweepPage reads one page if it is due, and reports whether it found candidates.
func (s *Store) sweepPage(ctx context.Context, l *lane, relay outbox.ID, destination string) (bool, error) {
	begin := time.Now()
	seen := s.signal.heard()
	l.mu.Lock()
	from, floor, stopped := l.sweep.from, l.floor, l.stopped
	due := l.sweep.due(begin, floor, seen)
	if due && from == 0 {
		l.sweep.started, l.sweep.seen = begin, seen
	}
	l.mu.Unlock()
	if !due {
		return false, nil
	}
	var reached *int64
	var seqs []int64
	var keys []string
	errs := s.run(ctx, s.transaction(call{s.sql.sweep, []any{relay, destination, stopped, from, floor, sweepRows},
		func(rows pgx.Rows) error { return rows.Scan(&reached, &seqs, &keys) }}))
	if errs[0] != nil {
		l.rest(begin)
		return false, s.explain("sweep below the floor", errs[0])
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sweep.from = 0
	if reached != nil {
		l.sweep.from = *reached
	}
	l.sweep.rested = rested(begin)
	l.offer(seqs)
	for _, key := range keys {
		l.keys.add(key)
	}
	return len(seqs)+len(keys) > 0, nil
}

// offer adds what is not offered yet: a claim may not have had room for it since the last pass.
func (l *lane) offer(seqs []int64) {
	offered := make(map[int64]bool, len(l.offered))
	for _, seq := range l.offered {
		offered[seq] = true
	}
	for _, seq := range seqs {
		if len(l.offered) < maxOffered && !offered[seq] {
			l.offered = append(l.offered, seq)
		}
	}
}

// sweepBeside sweeps before the claim of a lane that is never idle, which must not fail for it.
func (s *Store) sweepBeside(ctx context.Context, l *lane, q outbox.ClaimQuery) {
	const patience = time.Second
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if _, err := s.sweepPage(ctx, l, q.Relay, q.Destination); err != nil {
		s.log.DebugContext(ctx, "sweep beside a busy lane", "destination", q.Destination, "error", err)
	}
}

// rested is when a page that began then has been paid for.
func rested(begin time.Time) time.Time { return time.Now().Add(sweepShare * time.Since(begin)) }

func (l *lane) rest(begin time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sweep.rested = rested(begin)
}
