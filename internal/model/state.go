package model

import "math/bits"

// Bounds of a state, which is an array so that it can be compared.
const (
	mostMessages = 4
	mostClaims   = 6
	processes    = 2
	mostRelays   = 8
	mostNames    = 64 // ids, or tokens, at a time
)

// place is where a message is.
type place uint8

const (
	unborn   place = iota
	drawn          // it has a seq, its transaction is open
	awaiting       // as drawn, and waits for another publisher's dedup key
	prepared       // its transaction is prepared
	ready          // in message
	waiting        // in waiting
	dead
	ended // delivered or discarded
	never // rolled back, or a duplicate
)

// row is a message as the database has it.
type row struct {
	place place
	seq   uint8
	holds bool // its key, in waiting and dead
	due   bool // in waiting
}

// open reports whether the row's transaction is.
func (r row) open() bool { return r.place == drawn || r.place == awaiting || r.place == prepared }

// fate is what the explorer knows of a message, and nobody in the protocol.
type fate struct {
	accepted bool
	claimed  bool  // at some time: a scheduled message holds its key from then on
	again    bool  // it may be delivered again: a lease was lost, a process died, the database forgot
	holder   uint8 // the relay that claimed it last; 0: nobody since it was settled
	before   uint8 // these may go before it: they were claimed when it came
}

// set is a set of messages, or of keys.
type set = uint8

func bit(i int) set         { return 1 << i }
func has(s set, i int) bool { return s>>i&1 != 0 }
func size(s set) int        { return bits.OnesCount8(s) }

// claim is a row of the ledger. Zero: none.
type claim struct {
	id, token uint8
	relay     uint8 // 0: given back
	seqs      set
	floor     uint8
	young     bool // made since the relay's last heartbeat
	named     bool // by the heartbeat that is on its way
}

// ledger is what is committed asynchronously.
type ledger struct {
	claims [mostClaims]claim
	relays set // by number: they have a row
	nextID uint8
}

// disk is what a crash of the database leaves.
type disk struct {
	ledger  ledger
	rows    [mostMessages]row
	nextSeq uint8
}

// stage is how far a relay is with a message.
type stage uint8

const (
	absent stage = iota
	held
	delivering
	accepted
	failed // to be tried again
	doomed // to be dead
)

// record is a message as a relay has it.
type record struct {
	stage     stage
	id, token uint8
	void      bool // the database has forgotten the claim
}

// lane is what a relay remembers between its claims.
type lane struct {
	floor   uint8
	base    uint8
	high    uint8
	mark    uint8
	writers set // whose transactions were open at the mark
	known   set // keys
	skipped set // keys
	offered set // messages without a key
}

type status uint8

const (
	down status = iota
	running
	paused
)

// process is one that runs a relay.
type process struct {
	status  status
	relay   uint8 // its number
	starts  uint8
	over    bool // it knows that its lease has ended
	beating bool // a heartbeat is on its way
	lane    lane
	records [mostMessages]record
}

// budget is what may still happen.
type budget struct {
	rollbacks, fails, deaths, kills, pauses, losses, giveBacks, crashes, redrives, discards uint8
}

// State is everything at one moment.
type State struct {
	ledger
	rows      [mostMessages]row
	nextSeq   uint8
	lapsed    set // relays whose lease has ended and whose row is there
	disk      disk
	fates     [mostMessages]fate
	processes [processes]process
	nextToken uint8
	left      budget
}

// start is the state before anything has happened.
func (c *Config) start() State {
	s := State{left: budget{uint8(c.Rollbacks), uint8(c.Fails), uint8(c.Deaths), uint8(c.Kills), uint8(c.Pauses), uint8(c.Losses),
		uint8(c.GiveBacks), uint8(c.Crashes), uint8(c.Redrives), uint8(c.Discards)}}
	for p := range s.processes {
		if p == 0 || !c.Alone {
			s.launch(p)
		}
	}
	s.flush(c)
	return s
}

// launch registers a new relay for a process.
func (s *State) launch(p int) {
	pr := &s.processes[p]
	*pr = process{status: running, starts: pr.starts + 1, relay: pr.starts*processes + uint8(p) + 1}
	if pr.relay > mostRelays {
		panic("more relays than a state has room for")
	}
	s.relays |= bit(int(pr.relay) - 1)
}

// flush is a commit that waits for the disk, and so for all that was written before.
func (s *State) flush(c *Config) {
	if c.Crashes > 0 {
		s.disk = disk{s.ledger, s.rows, s.nextSeq}
	}
}

// live reports whether a relay has a row and its lease has not ended.
func (s *State) live(relay uint8) bool {
	return relay != 0 && has(s.relays&^s.lapsed, int(relay)-1)
}

// listed are the messages that claims list.
func (s *State) listed() (all set) {
	for _, cl := range s.claims {
		all |= cl.seqs
	}
	return all
}

// bySeq are the messages in the order of their seqs.
func (s *State) bySeq() (order [mostMessages]int, n int) {
	for i, r := range s.rows {
		if r.seq == 0 {
			continue
		}
		at := n
		for at > 0 && s.rows[order[at-1]].seq > r.seq {
			order[at] = order[at-1]
			at--
		}
		order[at] = i
		n++
	}
	return order, n
}

// keysOf are the keys of messages.
func (c *Config) keysOf(messages set) (keys set) {
	for i, key := range c.Keys {
		if key != 0 && has(messages, i) {
			keys |= bit(int(key))
		}
	}
	return keys
}

// ofKey are the messages of a key.
func (c *Config) ofKey(key uint8) (messages set) {
	for i, k := range c.Keys {
		if key != 0 && k == key {
			messages |= bit(i)
		}
	}
	return messages
}

// older are the messages of the same key with a lower seq.
func (s *State) older(c *Config, i int) (messages set) {
	for j := range c.Keys {
		if has(c.ofKey(c.Keys[i]), j) && s.rows[j].seq != 0 && s.rows[j].seq < s.rows[i].seq {
			messages |= bit(j)
		}
	}
	return messages
}

// obstacle reports whether a message must go before younger ones of its key.
func (s *State) obstacle(i int) bool {
	switch r := s.rows[i]; r.place {
	case ready:
		return true
	case waiting:
		return r.holds || s.fates[i].claimed
	case dead:
		return r.holds
	}
	return false
}

// arrived lets messages that are claimed go before one that comes, or comes back.
func (s *State) arrived(c *Config, i int) { s.fates[i].before |= s.listed() & c.ofKey(c.Keys[i]) }

// normal renames ids and tokens by their order, so that states that differ only in them are one.
func (s *State) normal() {
	var ids, tokens [mostNames]bool
	s.eachName(func(id, token *uint8) { ids[*id], tokens[*token] = true, true })
	ids[s.nextID], ids[s.disk.ledger.nextID], ids[0], tokens[0] = true, true, true, true
	idOf, tokenOf := ranks(&ids), ranks(&tokens)
	s.eachName(func(id, token *uint8) { *id, *token = idOf[*id], tokenOf[*token] })
	s.nextID, s.disk.ledger.nextID = idOf[s.nextID], idOf[s.disk.ledger.nextID]
	s.nextToken = 0
	s.eachName(func(_, token *uint8) { s.nextToken = max(s.nextToken, *token) })
	sortClaims(&s.claims)
	sortClaims(&s.disk.ledger.claims)
}

func (s *State) eachName(do func(id, token *uint8)) {
	for _, claims := range []*[mostClaims]claim{&s.claims, &s.disk.ledger.claims} {
		for i := range claims {
			do(&claims[i].id, &claims[i].token)
		}
	}
	for p := range s.processes {
		for i := range s.processes[p].records {
			do(&s.processes[p].records[i].id, &s.processes[p].records[i].token)
		}
	}
}

func ranks(used *[mostNames]bool) (rank [mostNames]uint8) {
	var n uint8
	for i, is := range used {
		if is {
			rank[i] = n
			n++
		}
	}
	return rank
}

// sortClaims puts them in the order of their ids, what is empty last.
func sortClaims(claims *[mostClaims]claim) {
	for i := range claims {
		if claims[i].seqs == 0 {
			claims[i] = claim{}
		}
		for j := i; j > 0 && before(claims[j], claims[j-1]); j-- {
			claims[j], claims[j-1] = claims[j-1], claims[j]
		}
	}
}

func before(a, b claim) bool { return a.seqs != 0 && (b.seqs == 0 || a.id < b.id) }
