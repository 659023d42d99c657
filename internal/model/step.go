package model

import "fmt"

// Step is something that happens.
type Step struct {
	Do      Kind
	Process int // that runs a relay; -1: none
	Message int // -1: none
	Limit   int // of a claim
	Relay   int // whose lease ends
}

// Kind is what happens in a step.
type Kind string

// The kinds: of publishers and time, of operators, of processes, of relays, of the database.
const (
	Publish      Kind = "publish"
	TakeKey      Kind = "get the dedup key of"
	Commit       Kind = "commit"
	RollBack     Kind = "roll back"
	Prepare      Kind = "prepare"
	Due          Kind = "the time comes of"
	Redrive      Kind = "redrive"
	Discard      Kind = "discard"
	Start        Kind = "start"
	Kill         Kind = "kill"
	Pause        Kind = "pause"
	Continue     Kind = "continue"
	Lapse        Kind = "the lease ends"
	SendBeat     Kind = "send a heartbeat"
	Beat         Kind = "the heartbeat arrives"
	Rejoin       Kind = "begin again under a new id"
	Claim        Kind = "claim"
	ClaimUnheard Kind = "claim and not hear of it"
	Begin        Kind = "begin to deliver"
	Deliver      Kind = "deliver"
	Fail         Kind = "fail to deliver"
	FailForGood  Kind = "fail for good to deliver"
	GiveBack     Kind = "give back"
	Settle       Kind = "settle"
	SettleWhole  Kind = "settle the whole claim of"
	Look         Kind = "look below the floor"
	LookAtAll    Kind = "look at all below the floor"
	Sweep        Kind = "sweep"
	Crash        Kind = "the database crashes"
)

func (s Step) String() string {
	text := string(s.Do)
	if s.Process >= 0 {
		text = fmt.Sprintf("relay %c: %s", 'A'+s.Process, text)
	}
	if s.Message >= 0 {
		text += fmt.Sprintf(" %d", s.Message+1)
	}
	if s.Limit > 0 {
		text += fmt.Sprintf(", at most %d", s.Limit)
	}
	return text
}

// turn is a state whose steps are tried.
type turn struct {
	*Config
	from *State
	emit func(Step, *State, error)
}

// try makes a step, which may turn out to be impossible.
func (t *turn) try(step Step, act func(s *State) (possible bool, fault error)) {
	next := *t.from
	possible, fault := act(&next)
	if !possible {
		return
	}
	next.normal()
	t.emit(step, &next, fault)
}

// sure makes a step that is possible.
func (t *turn) sure(step Step, act func(s *State)) {
	t.try(step, func(s *State) (bool, error) { act(s); return true, nil })
}

// steps are all that can happen next.
func (t *turn) steps() {
	for i := range t.Keys {
		t.publish(i)
		t.operate(i)
	}
	for p := range t.from.processes {
		t.process(p)
	}
	t.lapse()
	if t.from.left.crashes > 0 {
		t.sure(Step{Do: Crash, Process: -1, Message: -1}, func(s *State) { s.left.crashes--; s.crash(t.Config) })
	}
}

func (t *turn) process(p int) {
	pr := &t.from.processes[p]
	switch pr.status {
	case down:
		if p > 0 && t.Alone {
			return
		}
		t.sure(Step{Do: Start, Process: p, Message: -1}, func(s *State) { s.launch(p) })
		return
	case paused:
		t.sure(Step{Do: Continue, Process: p, Message: -1}, func(s *State) {
			pr := &s.processes[p]
			pr.status, pr.over = running, !s.live(pr.relay)
		})
		return
	}
	if t.from.left.kills > 0 {
		t.sure(Step{Do: Kill, Process: p, Message: -1}, func(s *State) { s.left.kills--; s.kill(p) })
	}
	if t.from.left.pauses > 0 {
		t.sure(Step{Do: Pause, Process: p, Message: -1}, func(s *State) { s.left.pauses--; s.processes[p].status = paused })
	}
	t.beat(p)
	t.claims(p)
	for i := range t.Keys {
		t.deliver(p, i)
		t.settle(p, i)
	}
	if t.Looks {
		t.try(Step{Do: Look, Process: p, Message: -1}, func(s *State) (bool, error) { return s.look(t.Config, p, false), nil })
		if t.from.processes[p].lane.known != 0 {
			t.try(Step{Do: LookAtAll, Process: p, Message: -1}, func(s *State) (bool, error) { return s.look(t.Config, p, true), nil })
		}
	}
	if !t.NoSweep {
		t.try(Step{Do: Sweep, Process: p, Message: -1}, func(s *State) (bool, error) { return s.sweep(t.Config, p), nil })
	}
}

// lapse ends leases of relays that do not run: those that do extend theirs in time.
func (t *turn) lapse() {
	for number := uint8(1); number <= mostRelays; number++ {
		if !t.from.live(number) || t.from.extends(number) {
			continue
		}
		t.sure(Step{Do: Lapse, Process: int(number-1) % processes, Message: -1, Relay: int(number)}, func(s *State) { s.endLease(number) })
	}
}

func (s *State) extends(relay uint8) bool {
	for _, pr := range s.processes {
		if pr.status == running && pr.relay == relay {
			return true
		}
	}
	return false
}

func (s *State) endLease(relay uint8) {
	s.lapsed |= bit(int(relay) - 1)
	s.excuse(relay)
}

// excuse lets what a relay has claimed be delivered again.
func (s *State) excuse(relay uint8) {
	if relay == 0 {
		return
	}
	for _, cl := range s.claims {
		if cl.relay == relay {
			s.again(cl.seqs)
		}
	}
	for _, pr := range s.processes {
		for i, r := range pr.records {
			if pr.relay == relay && r.stage != absent {
				s.again(bit(i))
			}
		}
	}
}

func (s *State) again(messages set) {
	for i := range s.fates {
		if has(messages, i) {
			s.fates[i].again = true
		}
	}
}

// kill ends a process without a word to the database.
func (s *State) kill(p int) {
	pr := &s.processes[p]
	s.excuse(pr.relay)
	*pr = process{starts: pr.starts}
}

// crash undoes what has not reached the disk. Connections end, and with them all transactions but those that are prepared.
func (s *State) crash(c *Config) {
	lost := s.ledger.claims
	s.ledger, s.nextSeq = s.disk.ledger, 0
	for i := range s.rows {
		r := &s.rows[i]
		switch {
		case r.place == unborn:
		case r.place == never, r.place == drawn, r.place == awaiting, s.disk.rows[i].place <= awaiting:
			*r = row{place: never}
		default:
			*r = s.disk.rows[i]
		}
		s.nextSeq = max(s.nextSeq, r.seq)
	}
	for _, cl := range lost {
		if !s.has(cl) {
			s.forget(cl)
		}
	}
	for _, cl := range s.claims {
		for i := range s.fates {
			if has(cl.seqs, i) && cl.relay != 0 {
				s.fates[i].holder = cl.relay
			}
		}
	}
	s.lapsed &= s.relays
	for p := range s.processes {
		pr := &s.processes[p]
		pr.beating = false
		if !c.BaseForever {
			pr.lane.base, pr.lane.high, pr.lane.mark, pr.lane.writers, pr.lane.known = 0, 0, 0, 0, 0
		}
		pr.lane.offered = 0
	}
	s.flush(c)
}

func (s *State) has(lost claim) bool {
	for _, cl := range s.claims {
		if cl.token == lost.token && cl.seqs != 0 {
			return true
		}
	}
	return false
}

// forget: the relay whose claim is undone does not know.
func (s *State) forget(cl claim) {
	s.again(cl.seqs)
	for i, r := range s.rows {
		if has(cl.seqs, i) && r.place == waiting && !has(s.listed(), i) {
			s.fates[i].claimed = r.holds
		}
	}
	for p := range s.processes {
		for i := range s.processes[p].records {
			if r := &s.processes[p].records[i]; r.stage != absent && r.token == cl.token {
				r.void = true
			}
		}
	}
}
