package pgstore

import (
	"time"
)

// feed is what the stream brings for one lane, on its way to the lane's claims; the lane's mutex guards it.
//
//	shut ──stream begins──▶ behind ──a window reached the end of the table──▶ following
//	  ▲                       ▲                                                   │
//	  │                       └──the buffer was full, a transaction too large─────┤
//	  └──stream ends, a topic of the lane is paused or closed by a breaker────────┘
//
// A lane that is behind claims by windows, as a lane that polls does, and keeps what arrives meanwhile. Once a window
// has reached the end, everything that was committed before the stream began has been seen, and the rest is in the
// buffer. When the buffer is full it is thrown away, and until the windows have reached the end, what arrives as well; then they
// begin anew from the lowest seq of that.
type feed struct {
	state feedState
	turn  uint64      // counts changes: what a call that began before one says about the end of the table is void
	queue []*streamed // committed, in that order
	bytes int         // of the queue
	late  int         // the last so many of the queue were not visible to the last claim
	lost  bool        // something was thrown away since the windows began
	low   int64       // the lowest seq of that; zero: none
	back  int64       // from here the windows begin with the next claim; zero: they go on
	open  bool        // this relay streams
	why   string      // the lane is not following
	since time.Time   // of the state
}

type feedState uint8

const (
	feedShut feedState = iota
	feedBehind
	feedFollowing
)

var feedStates = [...]string{"polling", "catching up", "following"}

func (s feedState) String() string { return feedStates[s] }

// Bounds of a feed. A lane that cannot keep up loses nothing by polling: the table is the truth.
const (
	maxStreamed      = 10_000
	maxStreamedBytes = 32 << 20
)

// Reasons for not following.
const (
	whyStarted    = "the stream has begun"
	whyFull       = "more messages arrived than the lane could take"
	whyLarge      = "a transaction was larger than the buffer"
	whyStopped    = "a topic of the lane is paused or its breaker is open"
	whyGoesOn     = "no topic of the lane is paused any more, and no breaker open"
	whyDisconnect = "this relay does not stream"
)

func (f *feed) become(state feedState, why string) {
	f.state, f.why, f.since = state, why, time.Now()
	f.turn++
}

// begin makes the lane catch up.
func (f *feed) begin(why string) {
	f.drop()
	f.lost, f.low = false, 0
	f.become(feedBehind, why)
}

// end makes the lane poll, from the first of what it was offered and has not asked for.
func (f *feed) end(why string) {
	if f.state == feedFollowing {
		f.retreat(lowest(f.queue))
	}
	f.drop()
	f.become(feedShut, why)
}

func (f *feed) drop() { f.queue, f.bytes, f.late = nil, 0, 0 }

func (f *feed) retreat(seq int64) {
	if seq > 0 && (f.back == 0 || seq < f.back) {
		f.back = seq
	}
}

// arrive takes the messages of a committed transaction.
func (f *feed) arrive(ms []*streamed) {
	bytes := 0
	for _, m := range ms {
		bytes += m.bytes()
	}
	switch {
	case f.state == feedShut:
	case f.lost:
		f.lose(lowest(ms))
	case len(f.queue)+len(ms) <= maxStreamed && f.bytes+bytes <= maxStreamedBytes:
		f.queue, f.bytes = append(f.queue, ms...), f.bytes+bytes
	default:
		all := append(f.queue, ms...)
		f.drop()
		f.miss(lowest(all), whyFull)
	}
}

// miss makes the lane claim by windows what it cannot have by the stream, from the given seq on.
func (f *feed) miss(seq int64, why string) {
	switch f.state {
	case feedFollowing:
		f.retreat(seq)
		f.become(feedBehind, why)
	case feedBehind:
		f.lose(seq)
	case feedShut:
	}
}

func (f *feed) lose(seq int64) {
	f.lost = true
	if f.low == 0 || seq < f.low {
		f.low = seq
	}
}

// reachedEnd tells that windows which began in the given turn have reached the end of the table.
func (f *feed) reachedEnd(turn uint64) {
	switch {
	case f.state != feedBehind || turn != f.turn:
	case f.lost:
		f.retreat(f.low)
		f.lost, f.low = false, 0
	default:
		f.become(feedFollowing, f.why)
	}
}

// take moves the next messages from the queue into a claim request.
func (f *feed) take(limit int, bytes int64) (ms []*streamed) {
	for len(f.queue) > len(ms) && len(ms) < limit {
		m := f.queue[len(ms)]
		bytes -= int64(m.bytes())
		if bytes < 0 && len(ms) > 0 {
			break
		}
		ms = f.queue[:len(ms)+1]
		f.bytes -= m.bytes()
	}
	f.queue = f.queue[len(ms):]
	return ms
}

// restore puts messages back that a claim request has not decided on: to be asked for next, or, when their
// transaction is not visible yet, after the others.
func (f *feed) restore(turn uint64, next, later []*streamed) {
	if turn != f.turn || f.state != feedFollowing {
		f.retreat(lowest(next))
		f.retreat(lowest(later))
		return
	}
	if len(next)+len(later) == 0 {
		return
	}
	queue := make([]*streamed, 0, len(next)+len(f.queue)+len(later))
	f.queue = append(append(append(queue, next...), f.queue...), later...)
	for _, m := range next {
		f.bytes += m.bytes()
	}
	for _, m := range later {
		f.bytes += m.bytes()
	}
}

// pending reports whether there is something to claim at once.
func (f *feed) pending() bool { return f.state == feedFollowing && len(f.queue) > f.late }

// forget takes messages out of the queue that the lane has found by itself.
func (f *feed) forget(claimed map[int64]bool) {
	left := f.queue[:0]
	for _, m := range f.queue {
		if claimed[m.seq] {
			f.bytes -= m.bytes()
		} else {
			left = append(left, m)
		}
	}
	clear(f.queue[len(left):])
	f.queue = left
}

// lowest is the lowest seq; zero if there is none.
func lowest(ms []*streamed) (seq int64) {
	for _, m := range ms {
		if seq == 0 || m.seq < seq {
			seq = m.seq
		}
	}
	return seq
}
