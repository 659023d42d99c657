package model

import "fmt"

// claims are the claims that a relay can make: their answer comes, or is lost.
func (t *turn) claims(p int) {
	pr := &t.from.processes[p]
	if pr.over {
		return
	}
	for _, limit := range t.Limits {
		t.try(Step{Do: Claim, Process: p, Message: -1, Limit: limit}, func(s *State) (bool, error) {
			was := *s
			got, fault := s.claim(t.Config, p, limit)
			s.receive(p, got)
			return *s != was, fault
		})
		if t.from.left.losses == 0 {
			continue
		}
		t.try(Step{Do: ClaimUnheard, Process: p, Message: -1, Limit: limit}, func(s *State) (bool, error) {
			lane := s.processes[p].lane
			got, fault := s.claim(t.Config, p, limit)
			s.processes[p].lane = lane
			s.left.losses--
			return got.seqs != 0, fault
		})
	}
}

func (s *State) receive(p int, got claim) {
	for i := range s.rows {
		if has(got.seqs, i) {
			s.processes[p].records[i] = record{stage: held, id: got.id, token: got.token}
		}
	}
}

// claim is one call of outbox.claim and what the lane makes of it.
func (s *State) claim(c *Config, p, limit int) (got claim, fault error) {
	pr := &s.processes[p]
	s.relays &^= s.lapsed
	s.lapsed = 0
	if !s.live(pr.relay) {
		pr.over = true
		return claim{}, nil
	}
	ch := s.choose(c, &pr.lane, limit)
	ch.advance(&pr.lane)
	if ch.ok == 0 {
		return claim{}, nil
	}
	if fault := s.checkClaim(c, ch.ok); fault != nil {
		return claim{}, fault
	}
	s.takeOver(ch)
	s.nextID++
	s.nextToken++
	got = claim{id: s.nextID, token: s.nextToken, relay: pr.relay, seqs: ch.ok, floor: ch.floor, young: true}
	s.add(got)
	for i := range s.fates {
		if has(ch.ok, i) {
			s.fates[i].holder, s.fates[i].claimed = pr.relay, true
		}
	}
	return got, nil
}

func (s *State) add(cl claim) {
	for i := range s.claims {
		if s.claims[i].seqs == 0 {
			s.claims[i] = cl
			return
		}
	}
	panic("more claims than a state has room for")
}

func (s *State) takeOver(ch *choice) {
	for i := range s.claims {
		cl := &s.claims[i]
		if !has(ch.lost, i) || cl.seqs&ch.ok == 0 {
			continue
		}
		cl.seqs &^= ch.ok
		cl.relay, cl.young, cl.named = 0, false, false
	}
}

// checkClaim: nobody alive holds what is claimed, nor its keys, and nothing older of them is outside.
func (s *State) checkClaim(c *Config, ok set) error {
	for i := range c.Keys {
		if !has(ok, i) {
			continue
		}
		for _, cl := range s.claims {
			switch {
			case !s.live(cl.relay):
			case has(cl.seqs, i):
				return fmt.Errorf("message %d is claimed while a live relay holds it", i+1)
			case cl.seqs&c.ofKey(c.Keys[i]) != 0:
				return fmt.Errorf("message %d is claimed while a live relay holds its key", i+1)
			}
		}
		for j := range c.Keys {
			if has(s.older(c, i), j) && !has(ok, j) && s.obstacle(j) {
				return fmt.Errorf("message %d is claimed before message %d of its key", i+1, j+1)
			}
		}
	}
	return nil
}
