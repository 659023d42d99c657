package model

// look is one call of outbox.below_mark and what the lane makes of it, as pgstore/base.go has it.
//
// whole: it reads all that is left, as it does now and then, and not only what is above high.
func (s *State) look(c *Config, p int, whole bool) (learned bool) {
	l := &s.processes[p].lane
	if l.floor <= l.high || !s.live(s.processes[p].relay) {
		return false
	}
	was := *l
	writers, mark := s.writers(c), min(l.floor, s.nextSeq+1)
	if l.mark > 0 {
		if !c.BaseTooEarly && l.writers&writers != 0 {
			return false
		}
		from := l.high
		if whole {
			from = l.base
		}
		s.raise(c, l, from)
	}
	l.mark, l.writers = mark, writers
	return *l != was
}

func (s *State) raise(c *Config, l *lane, from uint8) {
	var left set
	lowest := l.mark
	for i, r := range s.rows {
		if r.place == ready && r.seq >= from && r.seq < l.mark {
			left |= bit(i)
			lowest = min(lowest, r.seq)
		}
	}
	keys := c.keysOf(left)
	if from > l.base {
		keys |= l.known
	} else {
		l.base = lowest
	}
	l.high, l.known = l.mark, keys
	if keys == 0 {
		l.base = l.mark
	}
}

// sweep reads below the lane's floor.
func (s *State) sweep(c *Config, p int) (found bool) {
	l := &s.processes[p].lane
	was, listed := *l, s.listed()
	for i, r := range s.rows {
		if r.place != ready || r.seq >= l.floor || has(listed, i) {
			continue
		}
		if key := c.Keys[i]; key != 0 {
			l.skipped |= bit(int(key))
		} else {
			l.offered |= bit(i)
		}
	}
	return *l != was
}
