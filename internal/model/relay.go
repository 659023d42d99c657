package model

import "fmt"

// deliver is what a relay can do with a message that it has.
func (t *turn) deliver(p, i int) {
	switch t.from.processes[p].records[i].stage {
	case held:
		switch {
		case !t.mayBegin(p, i):
		case !t.Apart:
			t.ends(p, i)
		default:
			t.try(Step{Do: Begin, Process: p, Message: i}, func(s *State) (bool, error) {
				fault := s.checkBegin(t.Config, p, i)
				s.begin(p, i)
				return true, fault
			})
		}
		if t.from.left.giveBacks > 0 {
			t.sure(Step{Do: GiveBack, Process: p, Message: i}, func(s *State) { s.left.giveBacks--; s.giveBack(t.Config, p, i) })
		}
	case delivering:
		t.ends(p, i)
	}
}

// ends are the ends that a delivery can have; one that has not begun begins first.
func (t *turn) ends(p, i int) {
	end := func(kind Kind, how stage, spend func(*budget)) {
		t.try(Step{Do: kind, Process: p, Message: i}, func(s *State) (_ bool, fault error) {
			if s.processes[p].records[i].stage == held {
				fault = s.checkBegin(t.Config, p, i)
				s.begin(p, i)
			}
			spend(&s.left)
			s.processes[p].records[i].stage = how
			s.fates[i].accepted = s.fates[i].accepted || how == accepted
			return true, fault
		})
	}
	end(Deliver, accepted, func(*budget) {})
	if t.from.left.fails > 0 {
		end(Fail, failed, func(b *budget) { b.fails-- })
	}
	if t.from.left.deaths > 0 {
		end(FailForGood, doomed, func(b *budget) { b.deaths-- })
	}
}

// mayBegin: the messages of a key one after another, and none when the lease has ended.
func (t *turn) mayBegin(p, i int) bool {
	pr := &t.from.processes[p]
	if pr.over && !t.NoLeaseCheck {
		return false
	}
	for j, r := range pr.records {
		if has(t.from.older(t.Config, i), j) && r.stage != absent && r.stage != accepted &&
			(r.stage < failed || !t.KeepFollowers) {
			return false
		}
	}
	return true
}

func (s *State) begin(p, i int) {
	r := &s.processes[p].records[i]
	r.stage = delivering
	if f := &s.fates[i]; f.again && !r.void {
		f.again, f.accepted = false, false
	}
}

// followers are the younger messages of the key in the same claim.
func (s *State) followers(c *Config, p, i int) (messages set) {
	records := &s.processes[p].records
	for j, r := range records {
		if has(c.ofKey(c.Keys[i]), j) && s.rows[j].seq > s.rows[i].seq && r.stage == held && r.token == records[i].token {
			messages |= bit(j)
		}
	}
	return messages
}

// checkBegin: the relay is the one that has it, nobody else delivers it or its key, it was not delivered, and what is older
// went before.
func (s *State) checkBegin(c *Config, p, i int) error {
	pr := &s.processes[p]
	if pr.records[i].void {
		return nil // the database has forgotten that claim: a known limit
	}
	f := s.fates[i]
	if f.holder != pr.relay {
		return fmt.Errorf("message %d is delivered by a relay that does not hold it any more", i+1)
	}
	if f.accepted && !f.again {
		return fmt.Errorf("message %d is delivered twice", i+1)
	}
	for q := range s.processes {
		for j, r := range s.processes[q].records {
			beside := j == i || has(c.ofKey(c.Keys[i]), j)
			if q != p && beside && r.stage == delivering && !r.void && s.live(s.processes[q].relay) && !s.fates[j].again {
				return fmt.Errorf("message %d is delivered while another relay delivers message %d", i+1, j+1)
			}
		}
	}
	for j := range c.Keys {
		if has(s.older(c, i), j) && s.obstacle(j) && !s.fates[j].accepted && !has(s.fates[j].before, i) {
			return fmt.Errorf("message %d is delivered before message %d of its key", i+1, j+1)
		}
	}
	return nil
}

// beat is what a relay does for its lease.
func (t *turn) beat(p int) {
	pr := &t.from.processes[p]
	switch {
	case pr.over && !t.from.live(pr.relay) && !has(t.from.relays, int(pr.relay)-1):
		t.try(Step{Do: Rejoin, Process: p, Message: -1}, func(s *State) (bool, error) { return s.rejoin(t.Config, p) })
	case pr.beating:
		t.sure(Step{Do: Beat, Process: p, Message: -1}, func(s *State) { s.endBeat(t.Config, p) })
	case t.from.needsBeat(p):
		t.sure(Step{Do: SendBeat, Process: p, Message: -1}, func(s *State) { s.beginBeat(p) })
	}
}

// needsBeat: others change nothing that matters here.
func (s *State) needsBeat(p int) bool {
	pr := &s.processes[p]
	for _, cl := range s.claims {
		if cl.seqs != 0 && cl.relay == pr.relay {
			return true
		}
	}
	return pr.over
}

func (s *State) beginBeat(p int) {
	pr := &s.processes[p]
	pr.beating = true
	for i := range s.claims {
		cl := &s.claims[i]
		cl.named = cl.named && cl.relay != pr.relay
		for _, r := range pr.records {
			if cl.seqs != 0 && cl.relay == pr.relay && r.stage != absent && r.token == cl.token {
				cl.named = true
			}
		}
	}
}

func (s *State) endBeat(c *Config, p int) {
	pr := &s.processes[p]
	pr.beating = false
	if !has(s.relays, int(pr.relay)-1) {
		pr.over = true
		return
	}
	s.lapsed &^= bit(int(pr.relay) - 1)
	pr.over = false
	for i := range s.claims {
		cl := &s.claims[i]
		if cl.seqs == 0 || cl.relay != pr.relay {
			continue
		}
		if !cl.named && (!cl.young || c.NoYoung) && !c.NoBeat {
			cl.relay = 0
		}
		cl.young, cl.named = false, false
	}
}

// rejoin settles what has finished, once, under the old id, and begins again.
func (s *State) rejoin(c *Config, p int) (possible bool, fault error) {
	for _, r := range s.processes[p].records {
		if r.stage == delivering {
			return false, nil // its context has ended, it ends first
		}
	}
	for i, r := range s.processes[p].records {
		if r.stage >= accepted {
			if fault := s.settle(c, p, i); fault != nil {
				return true, fault
			}
		}
	}
	s.launch(p)
	return true, nil
}
