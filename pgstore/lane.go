package pgstore

import (
	"slices"
	"sync"
	"time"

	"github.com/outboxrelay/outbox"
)

// lane is where one lane of a relay looks for candidates. Nothing here decides anything: outbox.claim does.
//
// The floor is where the next window over message starts; below it are rows that the windows have seen. What
// they left there comes back in three ways: keys that were skipped are continued by index; lost claims list
// their messages; and the sweep finds rows that were committed after the window had passed.
type lane struct {
	mu         sync.Mutex
	floor      int64
	alone      int64 // below it the windows of other relays say nothing to this lane
	window     int
	grown      bool // the window: it is larger than what is asked for, because the last ones brought little
	due        duePass
	keys       *skippedKeys
	windowless int     // claims since the last window
	offered    []int64 // found by the sweep
	foreign    []int64 // lost claims that hold nothing for this lane
	lost       int     // how many lost claims a call looks at
	lostAfter  int64
	stopped    *string // topics that the last claim left alone
	busy       bool    // the last claim brought something
	windowOnly bool    // the other candidates filled the last claim and none could be taken
	mixed      bool    // other relays have other topics in this lane
	wakes      uint64  // wake-ups before the last claim
	sweep      sweep
	topics     outbox.TopicSet
	feed       feed
	base       base
	keyed      bool // the last claim brought messages with keys, or left such
}

// Bounds of a lane.
const (
	maxWindow     = 8000 // rows; a claim must not hold the lock for long
	maxWindowless = 8    // claims in a row
	maxOffered    = 10_000
	maxForeign    = 256
	fewLost       = 8
	mostLost      = 512
)

func newLane() *lane { return &lane{keys: newSkippedKeys(), lost: fewLost} }

// probe is what one claim call asks for, and result what it answers.
type probe struct {
	floor      int64
	share      bool
	window     int
	windowOnly bool
	due        dueWindow
	keys       []string
	seqs       []int64
	foreign    []int64
	lost       int
	lostAfter  int64
	base       *base     // used by one claim at a time
	look       *baseLook // goes with the claim; nil: none

	following bool // the candidates are streamed ones instead of a window's
	streamed  []*streamed
	turn      uint64
}

type result struct {
	state                     string
	floor                     *int64
	scanned, yielded, claimed *int
	dueAt                     *time.Time
	dueSeq                    *int64
	cut, misfit               *bool
	skipped, blocked, ended   []string
	foreign                   []int64
	lostLast                  *int64
	low                       *int64
	backend                   *int32
	stopped                   *string
	mixed                     *bool
	nextDue                   *int64
	fresh                     *int64     // the claim of fresh messages
	streamed, absent          []int64    // of the streamed candidates: taken, not in the table
	snapshot                  snapshot   // what absent ones were looked for with
	now                       *time.Time // the database's
}

func (l *lane) next(limit int, bytes int64, wakes uint64) probe {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.feed.back > 0 {
		l.alone = max(l.alone, l.floor)
		l.floor, l.feed.back = min(l.floor, l.feed.back), 0
	}
	if wakes != l.wakes {
		l.wakes = wakes
		l.keys.wake()
	}
	if !l.grown {
		l.window = 0
	}
	l.window = min(max(l.window, limit), maxWindow)
	var look *baseLook
	if l.keyed && l.busy {
		look = l.base.look(time.Now(), l.floor)
	}
	p := probe{
		base: &l.base, look: look,
		floor: l.floor, share: l.floor >= l.alone, window: l.window, windowOnly: l.windowOnly,
		due:     l.due.next(time.Now()),
		seqs:    l.offered[:min(len(l.offered), limit)],
		foreign: l.foreign, lost: l.lost, lostAfter: l.lostAfter,
	}
	l.nextKeys(&p, limit)
	l.nextStreamed(&p, limit, bytes)
	return p
}

// nextKeys continues skipped keys. Where the relay itself has just released enough of them, they fill the claim, and no window
// is looked at: with few keys, all of which are in flight most of the time, windows would run ahead of what can be taken.
// Now and then there is one all the same, for the sake of other keys.
func (l *lane) nextKeys(p *probe, limit int) {
	if !l.windowOnly && l.windowless < maxWindowless && l.keys.releasedAtLeast(max(limit/4, maxKeysPerCall)) {
		l.windowless++
		p.window, p.keys = 0, l.keys.take(time.Now(), max(limit/2, 1))
		return
	}
	l.windowless = 0
	p.keys = l.keys.take(time.Now(), maxKeysPerCall)
}

// abandon puts back what a call that failed had asked for.
func (l *lane) abandon(p probe) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.keys.again(p.keys)
	l.feed.restore(p.turn, p.streamed, nil)
}

// advance takes over what a call has found, and reports whether the next one should follow at once.
func (l *lane) advance(p probe, r *result, limit int, claimed []outbox.Claim) (more bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.advanceKeys(p, r)
	l.advanceOffered(p, r, claimed)
	again := l.advanceStreamed(p, r)
	l.advanceFloor(p, r, limit)
	l.advanceFeed(p, r, claimed)
	if !p.windowOnly {
		l.due.advance(p.due, r, time.Now())
	}
	l.mixed, l.busy = *r.mixed, *r.claimed > 0
	l.keyed = len(r.skipped) > 0 || slices.ContainsFunc(claimed, hasKeys)
	if r.lostLast != nil {
		l.lostAfter = *r.lostLast
	}
	if len(l.foreign)+len(r.foreign) <= maxForeign {
		l.foreign = append(l.foreign, r.foreign...)
	}
	stuck := *r.claimed == 0 && *r.cut && !*r.misfit
	switch {
	case *r.claimed > 0:
		l.lost = fewLost
	case stuck && !p.windowOnly: // parts of one key may be in claims that are far apart
		l.lost = min(8*l.lost, mostLost)
	}
	offeredDue := r.dueAt != nil // a due row leaves no room for another message where there is room for one
	l.windowOnly = (stuck || limit == 1 && offeredDue) && !p.windowOnly
	return !p.following && *r.scanned == p.window || again || l.feed.pending() && !*r.misfit || *r.cut && *r.claimed > 0 || l.windowOnly || l.due.at != nil ||
		l.keys.pending() || len(l.offered) > 0
}

// hasKeys looks at one message: some keys more or less do not matter.
func hasKeys(c outbox.Claim) bool { return len(c.Deliveries) > 0 && c.Deliveries[0].Key != "" }

func (l *lane) advanceKeys(p probe, r *result) {
	l.keys.end(r.ended)
	l.keys.block(r.blocked, time.Now())
	resting := make(map[string]bool, len(r.blocked))
	for _, key := range r.blocked {
		resting[key] = true
	}
	for _, key := range p.keys {
		if !resting[key] {
			l.keys.again([]string{key})
		}
	}
	for _, key := range r.skipped {
		l.keys.add(key)
	}
}

// advanceOffered forgets the offered seqs that were claimed, or could have been.
func (l *lane) advanceOffered(p probe, r *result, claimed []outbox.Claim) {
	if len(p.seqs) == 0 || p.windowOnly {
		return
	}
	if !*r.cut {
		l.offered = l.offered[len(p.seqs):]
		return
	}
	taken := map[int64]bool{}
	for _, c := range claimed {
		for _, d := range c.Deliveries {
			taken[d.Seq] = true
		}
	}
	left := l.offered[len(p.seqs):]
	for _, seq := range p.seqs {
		if !taken[seq] && *r.claimed > 0 {
			left = append(left, seq)
		}
	}
	l.offered = left
}

// advanceFloor moves the window. One that yields little grows, until it fills a batch; then it is as large as that took,
// and no larger than a batch when most rows are candidates. When topics that were left alone may be claimed again, their
// messages without a key are below the floor and unknown: start over, and by one's own windows, since those of the
// others' claims have passed them too.
func (l *lane) advanceFloor(p probe, r *result, limit int) {
	l.floor = *r.floor
	if !same(r.stopped, l.stopped) {
		l.alone = max(l.alone, l.floor)
		l.floor, l.stopped = 0, r.stopped
		l.stopFeed()
	}
	if p.following {
		return
	}
	little := 4**r.yielded < 3**r.scanned
	switch {
	case *r.claimed >= limit && little && *r.yielded > 0:
		l.window, l.grown = min(limit**r.scanned / *r.yielded, maxWindow), true
	case *r.claimed >= limit && !little:
		l.grown = false
	case little:
		l.window, l.grown = min(2*p.window, maxWindow), true
	}
}

// same reports whether two topic sets are the same; nil is no topic, "" is all.
func same(a, b *string) bool {
	return a == nil && b == nil || a != nil && b != nil && *a == *b
}

// isBusy reports whether the last claim brought something.
func (l *lane) isBusy() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.busy
}

// release continues a key in front of all others.
func (l *lane) release(key string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.keys.release(key)
}

// skip adds keys whose messages nobody lists any more.
func (l *lane) skip(key string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.keys.add(key)
}

// isMixed reports whether a key that is freed here may have its next message in the lane of another relay.
func (l *lane) isMixed() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.mixed
}
