package model

import "fmt"

// settle is how a relay can settle a message: alone, or with all others of its claim when all were delivered.
func (t *turn) settle(p, i int) {
	r := t.from.processes[p].records[i]
	if r.stage < accepted {
		return
	}
	t.try(Step{Do: Settle, Process: p, Message: i}, func(s *State) (bool, error) { return true, s.settle(t.Config, p, i) })
	for j, other := range t.from.processes[p].records {
		if other.token == r.token && other.stage != absent && (j < i || other.stage != accepted) {
			return
		}
	}
	t.try(Step{Do: SettleWhole, Process: p, Message: i}, func(s *State) (bool, error) { return true, s.settleWhole(t.Config, p, i) })
}

// find finds the claim that a result is for, if the relay still has it. Without the fence, whatever claim has the message.
func (s *State) find(c *Config, p, message int, r record) *claim {
	for i := range s.claims {
		cl := &s.claims[i]
		if c.NoFence && has(cl.seqs, message) {
			return cl
		}
		if cl.seqs != 0 && cl.id == r.id && (c.NoToken || cl.token == r.token) && cl.relay == s.processes[p].relay {
			return cl
		}
	}
	return nil
}

// settle is outbox.settle for one message.
func (s *State) settle(c *Config, p, i int) error {
	pr := &s.processes[p]
	r := pr.records[i]
	followers := s.followers(c, p, i)
	cl := s.find(c, p, i, r)
	counts := cl != nil && has(cl.seqs, i)
	pr.records[i] = record{}
	if r.stage != accepted && !c.KeepFollowers {
		s.drop(p, followers)
	}
	if !counts {
		return nil
	}
	if fault := s.checkSettle(p, i, r); fault != nil {
		return fault
	}
	cl.seqs &^= bit(i)
	switch row := &s.rows[i]; r.stage {
	case accepted:
		row.place, row.holds, row.due = ended, false, false
	case failed:
		row.place, row.holds, row.due = waiting, c.Keys[i] != 0, false
	case doomed:
		row.place, row.holds, row.due = dead, c.Park && c.Keys[i] != 0, false
	}
	if r.stage != accepted && !c.KeepFollowers {
		s.unlist(c, cl, followers)
		pr.lane.skipped |= c.keysOf(followers & s.below(pr.lane.floor))
	}
	s.flush(c)
	return nil
}

// checkSettle: the relay holds it.
func (s *State) checkSettle(p, i int, r record) error {
	if s.fates[i].holder != s.processes[p].relay || r.void {
		return fmt.Errorf("message %d is settled by a relay that does not hold it any more", i+1)
	}
	return nil
}

func (s *State) drop(p int, messages set) {
	for i := range s.rows {
		if has(messages, i) {
			s.processes[p].records[i] = record{}
		}
	}
}

// unlist takes messages out of a claim. A scheduled one holds its key from then on.
func (s *State) unlist(c *Config, cl *claim, messages set) {
	cl.seqs &^= messages
	for i := range s.rows {
		if has(messages, i) && s.rows[i].place == waiting && c.Keys[i] != 0 && !c.ScheduledFree {
			s.rows[i].holds = true
		}
	}
}

// below are the messages that are ready below a floor.
func (s *State) below(floor uint8) (messages set) {
	for i, r := range s.rows {
		if r.place == ready && r.seq < floor {
			messages |= bit(i)
		}
	}
	return messages
}

// settleWhole is outbox.settle_delivered: the relay sends no seqs.
func (s *State) settleWhole(c *Config, p, first int) error {
	records := s.processes[p].records
	r := records[first]
	cl := s.find(c, p, first, r)
	for i, other := range records {
		if other.stage != absent && other.token == r.token {
			s.processes[p].records[i] = record{}
		}
	}
	if cl == nil {
		return nil
	}
	for i := range s.rows {
		if !has(cl.seqs, i) {
			continue
		}
		if records[i].stage != accepted || records[i].token != r.token {
			return fmt.Errorf("message %d is settled as delivered and nothing has accepted it", i+1)
		}
		if fault := s.checkSettle(p, i, records[i]); fault != nil {
			return fault
		}
		s.rows[i] = row{place: ended, seq: s.rows[i].seq}
	}
	*cl = claim{}
	s.flush(c)
	return nil
}

// giveBack returns a message and what the relay has after it of its key: they stay listed, for the next relay.
func (s *State) giveBack(c *Config, p, i int) {
	r := s.processes[p].records[i]
	messages := bit(i) | s.followers(c, p, i)
	cl := s.find(c, p, i, r)
	s.drop(p, messages)
	if cl == nil {
		return
	}
	back := cl.seqs & messages
	s.unlist(c, cl, back)
	if back != 0 {
		s.nextID++
		s.nextToken++
		s.add(claim{id: s.nextID, token: s.nextToken, seqs: back})
	}
	s.flush(c)
}
