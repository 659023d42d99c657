package model

// publish is what the publisher of a message, and time, can do.
func (t *turn) publish(i int) {
	r := t.from.rows[i]
	switch r.place {
	case unborn: // messages are numbered in the order of their seqs
		if i == 0 || t.from.rows[i-1].place != unborn {
			t.sure(Step{Do: Publish, Process: -1, Message: i}, func(s *State) { s.draw(t.Config, i) })
		}
	case awaiting:
		if other, _ := t.dedupOf(i); !t.from.rows[other].open() {
			t.sure(Step{Do: TakeKey, Process: -1, Message: i}, func(s *State) { s.takeDedupKey(t.Config, i) })
		}
	case drawn, prepared:
		t.sure(Step{Do: Commit, Process: -1, Message: i}, func(s *State) { s.commit(t.Config, i) })
		if t.from.left.rollbacks > 0 {
			t.sure(Step{Do: RollBack, Process: -1, Message: i}, func(s *State) { s.left.rollbacks--; s.rows[i] = row{place: never} })
		}
		if r.place == drawn && t.Prepare {
			t.sure(Step{Do: Prepare, Process: -1, Message: i}, func(s *State) { s.rows[i].place = prepared; s.flush(t.Config) })
		}
	case waiting:
		if !r.due {
			t.sure(Step{Do: Due, Process: -1, Message: i}, func(s *State) { s.rows[i].due = true })
		}
	}
}

func (s *State) draw(c *Config, i int) {
	s.nextSeq++
	s.rows[i] = row{place: drawn, seq: s.nextSeq}
	if other, has := c.dedupOf(i); has {
		s.rows[i].place = awaiting
		if !s.rows[other].open() {
			s.takeDedupKey(c, i)
		}
	}
}

// takeDedupKey: the other publisher has ended. The window of dedup keys is longer than anything here.
func (s *State) takeDedupKey(c *Config, i int) {
	s.rows[i].place = drawn
	if other, _ := c.dedupOf(i); s.rows[other].place != never {
		s.rows[i] = row{place: never}
	}
}

func (s *State) commit(c *Config, i int) {
	s.rows[i].place = ready
	if c.scheduled(i) {
		s.rows[i].place = waiting
	}
	s.arrived(c, i)
	if !c.Async {
		s.flush(c)
	}
}

// writers are the messages whose transactions have a lock on message, as pg_locks says it.
func (s *State) writers(c *Config) (open set) {
	for i, r := range s.rows {
		switch {
		case r.place == drawn, r.place == awaiting && !c.LateLock, r.place == prepared && !c.PrepareForgets:
			open |= bit(i)
		}
	}
	return open
}

// operate is what operators can do with a message.
func (t *turn) operate(i int) {
	r := t.from.rows[i]
	claimed := has(t.from.listed(), i)
	if r.place == dead && t.from.left.redrives > 0 {
		t.sure(Step{Do: Redrive, Process: -1, Message: i}, func(s *State) { s.left.redrives--; s.redrive(t.Config, i) })
	}
	if t.from.left.discards > 0 && !claimed && (r.place == ready || r.place == waiting || r.place == dead) {
		t.sure(Step{Do: Discard, Process: -1, Message: i}, func(s *State) {
			s.left.discards--
			s.rows[i] = row{place: ended, seq: r.seq}
			s.flush(t.Config)
		})
	}
}

func (s *State) redrive(c *Config, i int) {
	r := &s.rows[i]
	r.place, r.holds, r.due = waiting, c.Keys[i] != 0, true
	s.arrived(c, i)
	s.flush(c)
}
