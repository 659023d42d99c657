package model

// choice is what outbox.choose and outbox.choose_plain come to.
type choice struct {
	s      *State
	c      *Config
	l      *lane
	limit  int
	listed set
	lost   set // claims
	held   set // keys
	start  uint8
	order  [mostMessages]int // messages by seq …
	n      int               // … so many
	// Candidates.
	all    set
	size   int
	window set // rows of it
	open   set // of them candidates, but for the limit
	taken  set // of them candidates
	// What became of them.
	ok    set
	floor uint8
}

func (s *State) choose(c *Config, l *lane, limit int) *choice {
	ch := &choice{s: s, c: c, l: l, limit: limit, start: max(l.floor, 1)}
	ch.order, ch.n = s.bySeq()
	if !c.DoubleListing {
		ch.listed = s.listed()
	}
	var back set
	for i, cl := range s.claims {
		switch {
		case cl.seqs == 0:
		case s.live(cl.relay):
			ch.start = max(ch.start, cl.floor) // others share it
			if !c.NoHeldKeys {
				ch.held |= c.keysOf(cl.seqs)
			}
		default:
			ch.lost |= bit(i)
			back |= cl.seqs
		}
	}
	ch.candidates(back)
	ch.ok = ch.withoutKey()
	for key := uint8(1); key < 8; key++ {
		if run := ch.all & c.ofKey(key); run != 0 {
			ch.ok |= ch.rule(key, run)
		}
	}
	return ch
}

// candidates gathers them in the order of their sources and cuts them to the limit.
func (ch *choice) candidates(back set) {
	ch.each(func(i int, r row) {
		if has(back, i) && (r.place == ready || r.place == waiting) {
			ch.offer(i)
		}
	})
	due := 0
	ch.each(func(i int, r row) {
		if r.place == waiting && r.due && !has(ch.listed, i) && due < max(ch.limit/2, 1) && ch.offer(i) {
			due++
		}
	})
	var base uint8
	if ch.plain() {
		base = ch.l.base
	}
	ch.each(func(i int, r row) { // found by the sweep, or of keys that were skipped
		again := has(ch.l.offered, i) || ch.c.Keys[i] != 0 && has(ch.l.skipped, int(ch.c.Keys[i]))
		if r.place == ready && r.seq >= base && r.seq < ch.start && again && !has(ch.listed, i) {
			ch.offer(i)
		}
	})
	ch.each(func(i int, r row) {
		if r.place != ready || r.seq < ch.start || size(ch.window) >= ch.c.Window {
			return
		}
		ch.window |= bit(i)
		if has(ch.listed, i) || has(ch.held, int(ch.c.Keys[i])) {
			return
		}
		ch.open |= bit(i)
		if ch.offer(i) {
			ch.taken |= bit(i)
		}
	})
	ch.floor = ch.next()
}

func (ch *choice) each(do func(i int, r row)) {
	for _, i := range ch.order[:ch.n] {
		do(i, ch.s.rows[i])
	}
}

func (ch *choice) offer(i int) bool {
	if ch.size >= ch.limit || has(ch.all, i) || has(ch.held, int(ch.c.Keys[i])) {
		return false
	}
	ch.all |= bit(i)
	ch.size++
	return true
}

// next is where the next window starts.
func (ch *choice) next() uint8 {
	floor := ch.start
	var last uint8
	ch.each(func(i int, r row) {
		if has(ch.taken, i) {
			last = r.seq
		}
		if has(ch.window, i) {
			floor = r.seq + 1
		}
	})
	for _, i := range ch.order[:ch.n] {
		if has(ch.open, i) && ch.s.rows[i].seq > last {
			return ch.s.rows[i].seq
		}
	}
	return floor
}

func (ch *choice) withoutKey() (ok set) {
	for i, key := range ch.c.Keys {
		if key == 0 && has(ch.all, i) {
			ok |= bit(i)
		}
	}
	return ok
}

// rule is the key rule: of a key's candidates those below the first undelivered message that is none of them. If that
// is below all of them and nobody lists it, it goes in their place.
func (ch *choice) rule(key uint8, run set) set {
	seq := func(i int) uint8 { return ch.s.rows[i].seq }
	first, block := -1, -1
	for _, i := range ch.order[:ch.n] {
		if !has(ch.c.ofKey(key)&^run, i) {
			continue
		}
		switch r := ch.s.rows[i]; {
		case r.place == ready && first < 0 && ch.probed(key, run, r.seq):
			first = i
		case r.place == waiting && block < 0 && !ch.c.NoHeadWaiting && (r.holds || has(ch.listed, i)),
			r.place == dead && block < 0 && !ch.c.NoHeadDead && r.holds:
			block = i
		}
	}
	end := first
	if end < 0 || block >= 0 && seq(block) < seq(end) {
		end = block
	}
	if end < 0 {
		return run
	}
	var ok set
	for i := range ch.c.Keys {
		if has(run, i) && seq(i) < seq(end) {
			ok |= bit(i)
		}
	}
	r := ch.s.rows[end]
	if ok == 0 && !has(ch.listed, end) && (r.place == ready || r.place == waiting && r.due) && ch.below(end, run) {
		return bit(end)
	}
	return ok
}

// below reports whether a message is below all of a run.
func (ch *choice) below(end int, run set) bool {
	for i := range ch.c.Keys {
		if has(run, i) && ch.s.rows[i].seq < ch.s.rows[end].seq {
			return false
		}
	}
	return true
}

// probed reports whether a message of a key that is none of its candidates is met: by outbox.choose always, by
// outbox.choose_plain where it can be. A key that has only continued candidates has nothing before them; of the others the
// known ones are looked up, and all have what lies between high and the floor.
func (ch *choice) probed(key uint8, run set, seq uint8) bool {
	switch {
	case ch.c.NoProbe:
		return false
	case !ch.plain():
		return true
	case run&ch.taken == 0:
		return false
	case has(ch.l.known, int(key)):
		return seq >= ch.l.base
	}
	return seq >= ch.l.high && seq < ch.start
}

// plain reports whether outbox.choose_plain is asked: nothing was lost, nothing is due, nothing was offered, and nothing of
// the keys to be continued is in waiting or dead.
func (ch *choice) plain() bool {
	if ch.lost != 0 || ch.l.offered != 0 {
		return false
	}
	for i, r := range ch.s.rows {
		if r.place == waiting && r.due || (r.place == waiting || r.place == dead) && r.holds && has(ch.l.skipped, int(ch.c.Keys[i])) {
			return false
		}
	}
	return true
}

// advance is what the lane remembers.
func (ch *choice) advance(l *lane) {
	var left, passed set
	ch.each(func(i int, r row) {
		switch {
		case r.place != ready || has(ch.listed, i) || has(ch.ok, i):
		case has(ch.window, i) && r.seq < ch.floor:
			passed |= bit(i)
		case r.seq < ch.start:
			left |= bit(i)
		}
	})
	l.skipped = l.skipped&(ch.c.keysOf(left)|ch.held) | ch.c.keysOf(passed)
	l.offered &= left
	l.floor = ch.floor
}
