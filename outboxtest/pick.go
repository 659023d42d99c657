package outboxtest

import (
	"slices"
	"time"

	"github.com/outboxrelay/outbox"
)

// pick chooses the messages of one claim request.
//
// The key rule: messages of a key are taken as a run, from the oldest undelivered one of the key in this
// destination, wherever it lies, and only if no live claim of the destination holds the key. The run ends at
// the first message that cannot be taken but holds the key: one that backs off, one of a closed topic, one
// that only another relay's lane of this destination handles. So whatever is claimed, nothing older of its
// key is left outside.
type pick struct {
	box   *box
	query outbox.ClaimQuery
	lane  outbox.LaneInfo
	now   time.Time

	rows    []*row
	suspect *row // among the rows
	bytes   int64
	more    bool
}

// fill takes a suspect, then other candidates until none is left or one does not fit.
func (p *pick) fill() {
	visited := map[string]bool{}
	candidates := p.candidates()
	if p.box.rules.mayTakeSuspect(p) && !p.takeSuspect(candidates) {
		return
	}
	for _, r := range candidates {
		key := p.keyOf(r)
		switch {
		case p.isSuspect(r):
		case key == "":
			if !p.take(r) {
				return
			}
		case !visited[key]:
			visited[key] = true
			if !p.takeRun(key) {
				return
			}
		}
	}
}

func (p *pick) isSuspect(r *row) bool { return p.box.rules.suspect(r.lapses()) }

// takeSuspect takes the first suspect that nothing holds up: of those that have crashed, then of those that
// claims list. It returns false when that one did not fit.
func (p *pick) takeSuspect(candidates []*row) bool {
	suspects := slices.DeleteFunc(slices.Clone(candidates), func(r *row) bool {
		return !p.isSuspect(r) || !p.box.rules.leads(p, r)
	})
	if len(suspects) == 0 {
		return true
	}
	first := slices.IndexFunc(suspects, func(r *row) bool { return r.lapses() > outbox.SuspectLapses })
	p.suspect = suspects[max(first, 0)]
	return p.take(p.suspect)
}

// candidates are what the lane could take if there were no keys: first what claims without a live relay list,
// then by publish order.
func (p *pick) candidates() []*row {
	var rows []*row
	for _, r := range p.box.rows {
		if p.isCandidate(r) {
			rows = append(rows, r)
		}
	}
	slices.SortFunc(rows, func(a, b *row) int {
		if listed := a.claim != nil; listed != (b.claim != nil) {
			if listed {
				return -1
			}
			return 1
		}
		return bySeq(a, b)
	})
	return rows
}

func (p *pick) isCandidate(r *row) bool {
	return r.isDue(p.now) && p.box.rules.takes(p, r)
}

// keyOf is the key that orders the message in this lane.
func (p *pick) keyOf(r *row) string {
	if p.lane.Unordered.Contains(r.Topic) {
		return ""
	}
	return r.Key
}

// takeRun takes the key's messages from its head on. It returns false when one did not fit.
func (p *pick) takeRun(key string) bool {
	if p.isHeld(key) {
		return true
	}
	run := p.line(key)
	for _, r := range run {
		if !p.isCandidate(r) || p.isSuspect(r) || !p.box.rules.sameClaim(r.lapses(), run[0].lapses()) {
			return true
		}
		if !p.take(r) {
			return false
		}
	}
	return true
}

// isHeld reports whether a live claim of the destination holds the key.
func (p *pick) isHeld(key string) bool {
	for _, c := range p.box.claims {
		if p.box.isLive(c) && p.box.rules.blocks(c, key, p.query.Destination) {
			return true
		}
	}
	return false
}

// line is everything that holds the key in this destination and every candidate of the key, in publish order.
func (p *pick) line(key string) []*row {
	var rows []*row
	for _, r := range p.box.rows {
		if r.Key != key || !r.isFree(p.box) {
			continue
		}
		if p.isCandidate(r) && p.keyOf(r) == key || p.box.rules.inOrder(p, r) {
			rows = append(rows, r)
		}
	}
	slices.SortFunc(rows, bySeq)
	return rows
}

// isOrdered reports whether a live relay delivers the topic to the destination, in order. A topic that nobody
// handles holds no key.
func (b *box) isOrdered(topic, destination string) bool {
	for _, r := range b.relays {
		lane, ok := r.lane(destination)
		if ok && lane.Topics.Contains(topic) && !lane.Unordered.Contains(topic) {
			return true
		}
	}
	return false
}

// take adds the message unless it exceeds a limit.
func (p *pick) take(r *row) bool {
	size := int64(len(r.Payload))
	alone := p.query.Oversized && len(p.rows) == 0
	if len(p.rows) >= p.query.Limit || p.bytes+size > p.query.Bytes && !alone {
		p.more = true
		return false
	}
	p.rows = append(p.rows, r)
	p.bytes += size
	return true
}

// split parts what was taken into the future claims: messages of relays that died are kept apart from the
// others, because they may be what kills a relay, and a suspect is alone.
func (p *pick) split() [][]*row {
	var claims [][]*row
	for _, r := range p.rows {
		i := slices.IndexFunc(claims, func(rows []*row) bool {
			return r != p.suspect && rows[0] != p.suspect && p.box.rules.sameClaim(rows[0].lapses(), r.lapses())
		})
		if i < 0 {
			claims = append(claims, []*row{r})
			continue
		}
		claims[i] = append(claims[i], r)
	}
	return claims
}

// nextDue is the time until the lane's next waiting message is due; zero if there is none.
func (p *pick) nextDue() time.Duration {
	var next time.Duration
	for _, r := range p.box.rows {
		if r.state != waiting || r.isDue(p.now) || !p.box.rules.takes(p, r) {
			continue
		}
		if left := r.availableAt.Sub(p.now); next == 0 || left < next {
			next = left
		}
	}
	return next
}
