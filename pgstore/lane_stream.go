package pgstore

import (
	"slices"

	"github.com/outboxrelay/outbox"
)

// What the stream tells a lane, and what a lane makes of it in its claims.

func (l *lane) learnTopics(topics outbox.TopicSet) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.topics = topics
}

func (l *lane) takes(topic string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.topics.Contains(topic)
}

func (l *lane) streamBegins() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.feed.open {
		return
	}
	l.feed.open = true
	if l.stopped == nil {
		l.feed.begin(whyStarted)
	}
}

func (l *lane) streamEnds() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.feed.open = false
	l.feed.end(whyDisconnect)
}

func (l *lane) streamBrings(ms []*streamed) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.feed.arrive(ms)
}

func (l *lane) streamMissed(seq int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.feed.miss(seq, whyLarge)
}

// nextStreamed makes a claim request of what the stream has brought, if the lane follows it. The floor is above all of
// that: keys that cannot be taken now are continued by index like those that a window has passed.
func (l *lane) nextStreamed(p *probe, limit int, bytes int64) {
	p.turn = l.feed.turn
	if l.feed.state != feedFollowing {
		return
	}
	p.following, p.window, p.share = true, 0, false
	p.streamed = l.feed.take(limit, bytes)
	for _, m := range p.streamed {
		p.floor = max(p.floor, m.seq+1)
	}
}

// streamedSeqs are the candidates as an argument; NULL when a window is asked for.
func (p *probe) streamedSeqs() any {
	if !p.following {
		return nil
	}
	seqs := make([]int64, len(p.streamed))
	for i, m := range p.streamed {
		seqs[i] = m.seq
	}
	return seqs
}

// advanceStreamed sorts out what became of the streamed candidates. One that was not taken and could have been is somebody
// else's or gone, or its key is continued; one that is not in the table may be of a transaction that is not visible yet.
func (l *lane) advanceStreamed(p probe, r *result) (again bool) {
	absent := make(map[int64]bool, len(r.absent))
	for _, seq := range r.absent {
		absent[seq] = true
	}
	var next, later []*streamed
	for _, m := range p.streamed {
		_, taken := slices.BinarySearch(r.streamed, m.seq)
		switch {
		case taken:
		case absent[m.seq]:
			if !r.snapshot.sees(m.xid) {
				again = again || !m.missed
				m.missed = true
				later = append(later, m)
			}
		case *r.cut && m.key == "":
			next = append(next, m)
		}
	}
	l.feed.restore(p.turn, next, later)
	l.feed.late = len(later)
	return again
}

// advanceFeed changes the feed's state as the claim's answer says.
func (l *lane) advanceFeed(p probe, r *result, claimed []outbox.Claim) {
	if len(l.feed.queue) > 0 && !p.following && len(claimed) > 0 {
		found := map[int64]bool{}
		for _, c := range claimed {
			for _, d := range c.Deliveries {
				found[d.Seq] = true
			}
		}
		l.feed.forget(found)
	}
	if !p.following && !p.windowOnly && !*r.cut && *r.scanned < p.window {
		l.feed.reachedEnd(p.turn)
	}
}

// stopFeed follows a change of the topics that are left alone: with any, the lane polls.
func (l *lane) stopFeed() {
	switch {
	case !l.feed.open:
	case l.stopped != nil:
		l.feed.end(whyStopped)
	default:
		l.feed.begin(whyGoesOn)
	}
}
