package model

import "fmt"

// What follows lets a real outbox be led along the model: the steps are the model's, and what a claim brings is the outbox's.

// Move is a step that can be made and the state that it leads to.
type Move struct {
	Step
	Next State
}

// Begin is the state before anything has happened.
func (c *Config) Begin() State { return c.start() }

// Moves are all steps that can be made. The fault is of the first that breaks a guarantee.
func (c *Config) Moves(s *State) (moves []Move, fault error) {
	t := turn{Config: c, from: s, emit: func(step Step, next *State, broken error) {
		moves = append(moves, Move{step, *next})
		if fault == nil {
			fault = broken
		}
	}}
	t.steps()
	return moves, fault
}

// Adopt takes the claims of one call over, each with its messages by number, whatever the model would have taken; lost: the
// relay was told that its lease is. The error is the guarantee that they break.
func (c *Config) Adopt(s *State, process int, heard, lost bool, claims [][]int) error {
	pr := &s.processes[process]
	s.relays &^= s.lapsed
	s.lapsed = 0
	if live := s.live(pr.relay); live == lost {
		return fmt.Errorf("a relay that has a lease: %v, was told that it has none: %v", live, lost)
	}
	if pr.over = lost; lost {
		return nil
	}
	for _, messages := range claims {
		var ok set
		for _, i := range messages {
			ok |= bit(i)
			s.fates[i].holder, s.fates[i].claimed = pr.relay, true
		}
		if fault := s.checkClaim(c, ok); fault != nil {
			return fault
		}
		s.takeOver(&choice{lost: 0xff, ok: ok})
		s.nextID++
		s.nextToken++
		cl := claim{id: s.nextID, token: s.nextToken, relay: pr.relay, seqs: ok, young: true}
		s.add(cl)
		if heard {
			s.receive(process, cl)
		}
	}
	if !heard && s.left.losses > 0 {
		s.left.losses--
	}
	s.normal()
	return nil
}

// Counts reports whether a result of a process for a message takes effect.
func (s *State) Counts(c *Config, process, message int) bool {
	cl := s.find(c, process, message, s.processes[process].records[message])
	return cl != nil && has(cl.seqs, message)
}

// Table is where a message is: message, waiting, dead, or nowhere.
func (s *State) Table(message int) string {
	return map[place]string{ready: "message", waiting: "waiting", dead: "dead"}[s.rows[message].place]
}

// Ledger is what claims list, each as the numbers of its messages in order, and whether a relay has it.
func (s *State) Ledger() (claims []Listing) {
	for _, cl := range s.claims {
		if cl.seqs == 0 {
			continue
		}
		l := Listing{Owned: cl.relay != 0}
		for i := range s.rows {
			if has(cl.seqs, i) {
				l.Messages += string(rune('1' + i))
			}
		}
		claims = append(claims, l)
	}
	return claims
}

// Listing is a claim of the ledger.
type Listing struct {
	Messages string // their numbers from 1
	Owned    bool   // it was not given back or taken over
}

// Records are the messages that a process has of the claim of one of them: what it settles together.
func (s *State) Records(process, of int) (messages []int) {
	records := &s.processes[process].records
	for i, r := range records {
		if r.stage != absent && r.token == records[of].token {
			messages = append(messages, i)
		}
	}
	return messages
}

// Followers are what goes back with a message that failed.
func (s *State) Followers(c *Config, process, message int) (messages []int) {
	followers := s.followers(c, process, message)
	for i := range s.rows {
		if has(followers, i) {
			messages = append(messages, i)
		}
	}
	return messages
}

// Outcome is what a process has made of a message: delivered, failed, doomed.
func (s *State) Outcome(process, message int) string {
	return map[stage]string{accepted: "delivered", failed: "failed", doomed: "doomed"}[s.processes[process].records[message].stage]
}

// Relay is the number of the relay that a process runs or ran last; a new one has a new number. 0: none.
func (s *State) Relay(process int) int { return int(s.processes[process].relay) }

// Over reports whether a process knows that its lease has ended.
func (s *State) Over(process int) bool { return s.processes[process].over }
