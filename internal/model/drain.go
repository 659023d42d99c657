package model

import "fmt"

// drain lets a state come to rest in which nothing goes wrong any more: transactions end, one relay or both work on, operators
// redrive what holds its key. Everything that was published must then have ended. That is "eventually delivered" without an
// assumption about who is lucky: it holds for each of the three choices of who works on.
func (e *explorer) drain(s State) error {
	s.left = budget{}
	hash := e.hash(&s)
	if e.drained[hash] {
		return nil
	}
	e.drained[hash] = true
	for _, working := range []set{bit(0), bit(1), bit(0) | bit(1)} {
		if err := e.rest(s, working); err != nil {
			return err
		}
	}
	return nil
}

// roundsMost is far more than any state needs.
const roundsMost = 40

func (e *explorer) rest(s State, working set) error {
	c := *e.Config
	s.endAll(&c)
	for p := range s.processes {
		s.cast(p, has(working, p))
	}
	s.endLeases()
	for range roundsMost {
		if s.rested() {
			return nil
		}
		for i := range s.rows {
			s.wake(&c, i)
		}
		for p := range s.processes {
			if !has(working, p) {
				continue
			}
			if fault := s.work(&c, p); fault != nil {
				return fault
			}
		}
		s.normal()
	}
	for i, r := range s.rows {
		if !r.over() {
			return fmt.Errorf("message %d is never delivered", i+1)
		}
	}
	return nil
}

// over reports whether nothing more comes of a message.
func (r row) over() bool {
	return r.place == unborn || r.place == ended || r.place == never || r.place == dead && !r.holds
}

func (s *State) rested() bool {
	for _, r := range s.rows {
		if !r.over() {
			return false
		}
	}
	return true
}

// endAll commits all transactions.
func (s *State) endAll(c *Config) {
	for i := range s.rows {
		if s.rows[i].place == awaiting {
			s.takeDedupKey(c, i) // those before have ended
		}
		if s.rows[i].open() {
			s.commit(c, i)
		}
	}
}

// cast makes a process one that works on, or one that is gone for ever.
func (s *State) cast(p int, working bool) {
	pr := &s.processes[p]
	switch {
	case !working:
		s.kill(p)
	case pr.status == paused:
		pr.status, pr.over = running, !s.live(pr.relay)
	case pr.status == down:
		*pr = process{status: running, relay: mostRelays - 1 + uint8(p)}
		s.relays |= bit(int(pr.relay) - 1)
		s.lapsed &^= bit(int(pr.relay) - 1)
	}
}

// endLeases ends those of relays that are gone.
func (s *State) endLeases() {
	for number := uint8(1); number <= mostRelays; number++ {
		if s.live(number) && !s.extends(number) {
			s.endLease(number)
		}
	}
}

func (s *State) wake(c *Config, i int) {
	switch r := &s.rows[i]; {
	case r.place == waiting:
		r.due = true
	case r.place == dead && r.holds:
		s.redrive(c, i)
	}
}

// work is what a relay does in a while: it delivers and settles what it has, beats, sweeps and claims.
func (s *State) work(c *Config, p int) error {
	pr := &s.processes[p]
	if fault := s.finish(c, p); fault != nil {
		return fault
	}
	if pr.over && !has(s.relays, int(pr.relay)-1) {
		*pr = process{status: running, relay: pr.relay}
		s.relays |= bit(int(pr.relay) - 1)
	}
	if pr.beating {
		s.endBeat(c, p)
	}
	if s.needsBeat(p) {
		s.beginBeat(p)
		s.endBeat(c, p)
	}
	if !c.NoSweep {
		s.sweep(c, p)
	}
	got, fault := s.claim(c, p, c.Limits[len(c.Limits)-1])
	s.receive(p, got)
	return fault
}

// finish delivers what the relay has, in order, and settles it.
func (s *State) finish(c *Config, p int) error {
	pr := &s.processes[p]
	order, n := s.bySeq()
	for _, i := range order[:n] {
		r := &pr.records[i]
		if r.stage == held && !pr.over {
			if fault := s.checkBegin(c, p, i); fault != nil {
				return fault
			}
			s.begin(p, i)
		}
		if r.stage == delivering {
			r.stage, s.fates[i].accepted = accepted, true
		}
		if r.stage >= accepted {
			if fault := s.settle(c, p, i); fault != nil {
				return fault
			}
		}
	}
	if pr.over {
		pr.records = [mostMessages]record{}
	}
	return nil
}
