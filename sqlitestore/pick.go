package sqlitestore

import (
	"database/sql"
	"slices"

	"github.com/outboxrelay/outbox"
)

// candidate is a message that may be claimed, as far as it alone is concerned.
type candidate struct {
	seq    int64
	topic  string
	key    string
	size   int64
	lapses int   // that its next claim begins with
	claim  int64 // that lists it; 0: none
	due    bool

	// Of a waiting one:
	at          int64  // when it was due
	destination string // its only one; empty: by route
}

func (c *candidate) isSuspect() bool { return c.lapses >= outbox.SuspectLapses }

// pick chooses the messages of one claim request.
//
// The key rule: messages of a key are taken as a run, from the front of the key's line in this destination, wherever
// that lies, and only if no live relay holds the key there. The run ends at the first message that cannot be taken: one
// that backs off or is parked, one of a closed or paused topic, one that only another relay's lane of this destination
// handles. So nothing older of a key is left outside.
type pick struct {
	t      *tx
	lane   *lane
	query  outbox.ClaimQuery
	topics *topics

	rows     []candidate
	suspect  int64 // its seq, among the rows; 0: none
	bytes    int64
	full     bool // one did not fit
	unlooked bool // there are places that this claim has not come to
	visited  map[string]bool
	taken    map[int64]bool
	lines    lines // of keys that were looked at together
	single   bool  // asks for each key by itself, for tests
}

// window is how many messages are looked at in one place.
func (p *pick) window() int { return min(p.query.Limit+200, 1000) }

// fill takes a suspect, then what claims without a live relay list, then what is due, the next of skipped keys, and what
// is ready, until nothing is left or one does not fit.
func (p *pick) fill() error {
	orphans, err := p.candidates("claim_listed", p.t.now, p.query.Destination)
	if err != nil {
		return err
	}
	if err := p.takeSuspect(orphans); err != nil || p.full {
		return err
	}
	for i := range orphans {
		if err := p.offer(&orphans[i]); err != nil || p.full {
			return err
		}
	}
	half := len(p.rows) + max((p.query.Limit-len(p.rows))/2, 1)
	for _, step := range []func() error{
		func() error { return p.due(half) }, p.skippedKeys, p.again, p.ahead, func() error { return p.due(p.query.Limit + 1) },
	} {
		if err := step(); err != nil || p.full {
			return err
		}
	}
	return nil
}

// due takes waiting messages whose time has come, from one window, until so many are taken.
func (p *pick) due(most int) error {
	rows, err := p.candidates("claim_due", p.lane.due.at, p.lane.due.seq, p.t.now, p.window())
	if err != nil {
		return err
	}
	for i := range rows {
		if len(p.rows) >= most {
			p.unlooked = true
			return nil
		}
		if err := p.offerOrSkip(&rows[i]); err != nil || p.full {
			return err
		}
		p.lane.passed(place{rows[i].at, rows[i].seq})
	}
	p.unlooked = p.unlooked || len(rows) == p.window()
	return nil
}

// skippedKeys goes on with keys that were held when a window came to them. Most of those that come after a settlement have no
// message any more.
func (p *pick) skippedKeys() error {
	keys := p.lane.skipped.take(p.window())
	if len(keys) == 0 {
		return nil
	}
	if err := p.lookAtKeys(keys); err != nil {
		return err
	}
	slow := 0
	for i, key := range keys {
		kind := p.lines.kind(key)
		switch {
		case p.visited[key]:
			p.lane.skipped.add(key)
			continue
		case kind == keyIdle:
			continue
		case kind == keyOther:
			if slow++; slow > keysPerClaim {
				p.lane.skipped.putBack(keys[i:])
				return nil
			}
		}
		left, err := p.takeKey(key)
		if left || p.full {
			p.lane.skipped.add(key)
		}
		if err != nil || p.full {
			p.lane.skipped.putBack(keys[i+1:])
			return err
		}
	}
	return nil
}

// again looks a second time at what has been looked at, a window at a time.
func (p *pick) again() (err error) {
	if p.lane.pass >= p.lane.high {
		return nil
	}
	if p.lane.pass, err = p.ready(p.lane.pass, p.lane.high); err != nil {
		return err
	}
	p.unlooked = p.unlooked || p.lane.pass < p.lane.high
	return nil
}

// ahead looks at what no claim of the lane has come to.
func (p *pick) ahead() (err error) {
	const end = 1<<63 - 1
	level := p.lane.pass >= p.lane.high
	from := p.lane.high
	if p.lane.high, err = p.ready(from, end); err != nil {
		return err
	}
	if level {
		p.lane.pass = p.lane.high
	}
	return nil
}

// ready takes from a window of ready messages and returns how far it has come.
func (p *pick) ready(from, to int64) (reached int64, err error) {
	rows, err := p.candidates("claim_window", from, to, p.window())
	if err != nil {
		return from, err
	}
	if err := p.lookAtKeys(p.keysOf(rows)); err != nil {
		return from, err
	}
	for i := range rows {
		if err := p.offerOrSkip(&rows[i]); err != nil || p.full {
			return from, err
		}
		from = rows[i].seq
	}
	switch {
	case len(rows) == p.window():
		p.unlooked = true
	case to < 1<<63-1:
		from = to
	}
	return from, nil
}

// offerOrSkip is offer for a place that will not be looked at again: if the message has a key and is not taken, the key
// is remembered.
func (p *pick) offerOrSkip(c *candidate) error {
	if c.destination != "" && c.destination != p.query.Destination {
		return nil
	}
	if c.claim == 0 {
		if err := p.offer(c); err != nil {
			return err
		}
	}
	if c.key != "" && !p.taken[c.seq] && !p.full {
		p.lane.skipped.add(c.key)
	}
	return nil
}

// offer takes the message, or the run of its key, if it may be taken.
func (p *pick) offer(c *candidate) error {
	if p.taken[c.seq] || c.isSuspect() || !p.topics.takes(c.topic) {
		return nil
	}
	key := p.topics.keyOf(c)
	switch {
	case key == "":
		p.take(c)
	case !p.visited[key]:
		_, err := p.takeKey(key)
		return err
	}
	return nil
}

// takeRun takes the key's messages from the front of its line on. It reports whether anything is left that a later claim
// may get.
func (p *pick) takeRun(key string) (left bool, err error) {
	p.visited[key] = true
	line, held, err := p.line(key, max(p.query.Limit-len(p.rows)+1, 50))
	if err != nil || held {
		return held, err
	}
	for i := range line {
		c := &line[i]
		if !c.due || c.isSuspect() || !p.topics.takes(c.topic) || (c.lapses > 0) != (line[0].lapses > 0) {
			break
		}
		if p.taken[c.seq] { // its topic has no order in this lane, and has one in another's
			continue
		}
		if !p.take(c) {
			break
		}
	}
	return slices.ContainsFunc(line, func(c candidate) bool { return c.due && !p.taken[c.seq] }) || len(line) >= 50, nil
}

// line is the front of the key's line, and whether a live relay holds the key.
func (p *pick) line(key string, limit int) (line []candidate, held bool, err error) {
	ordered, err := p.topics.inOrder(p.t)
	if err != nil {
		return nil, false, err
	}
	err = p.t.often("claim_line", []any{key, ordered, p.query.Destination, p.t.now, limit}, func(rows *sql.Rows) error {
		var c candidate
		err := rows.Scan(&c.seq, &c.topic, &c.key, &c.size, &c.lapses, &c.claim, &c.due, &held)
		line = append(line, c)
		return err
	})
	return line, held, err
}

// takeSuspect takes the first suspect that nothing holds up: of those that have crashed, then of those that claims list.
func (p *pick) takeSuspect(orphans []candidate) error {
	var held int
	if err := p.t.row("claim_suspects_held", []any{p.query.Relay.String(), outbox.SuspectLapses}, &held); err != nil || held > 0 {
		return err
	}
	waiting, err := p.candidates("claim_suspects", p.t.now, p.query.Destination)
	if err != nil {
		return err
	}
	suspects := slices.Concat(orphans, waiting)
	slices.SortStableFunc(suspects, func(a, b candidate) int { return crashedFirst(&a) - crashedFirst(&b) })
	for i := range suspects {
		c := &suspects[i]
		if !c.isSuspect() || !p.topics.takes(c.topic) {
			continue
		}
		if key := p.topics.keyOf(c); key != "" {
			line, held, err := p.line(key, 1)
			if err != nil {
				return err
			}
			if held || len(line) == 0 || line[0].seq != c.seq {
				continue
			}
		}
		if p.take(c) {
			p.suspect = c.seq
		}
		return nil
	}
	return nil
}

func crashedFirst(c *candidate) int {
	if c.lapses > outbox.SuspectLapses {
		return 0
	}
	return 1
}

// take adds the message unless it exceeds a limit.
func (p *pick) take(c *candidate) bool {
	alone := p.query.Oversized && len(p.rows) == 0
	if len(p.rows) >= p.query.Limit || p.bytes+c.size > p.query.Bytes && !alone {
		p.full = true
		return false
	}
	p.rows = append(p.rows, *c)
	p.taken[c.seq] = true
	p.bytes += c.size
	return true
}

// candidates reads due messages; not all queries have all columns.
func (p *pick) candidates(query string, args ...any) (list []candidate, err error) {
	columns := 0
	err = p.t.rows(query, args, func(rows *sql.Rows) error {
		if columns == 0 {
			names, err := rows.Columns()
			if err != nil {
				return err
			}
			columns = len(names)
		}
		c := candidate{due: true}
		into := [...]any{&c.seq, &c.topic, &c.key, &c.size, &c.lapses, &c.claim, &c.at, &c.destination}
		err := rows.Scan(into[:columns]...)
		list = append(list, c)
		return err
	})
	return list, err
}
