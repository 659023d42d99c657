package history

import (
	"fmt"
	"maps"
	"slices"
)

const simLease = 500 // ticks; every action takes one

// simulation is a run of publishers and relays in one goroutine: every action is one step of somebody, and a
// random choice says whose.
type simulation struct {
	pick    func(n int) int // from 0 to n−1
	store   *simStore
	now     int64
	seq     int64
	names   int
	txs     []*simTx
	relays  []*simRelay
	events  []Event
	settled bool // nothing fails and nobody dies any more
}

type simTx struct {
	messages []*simMessage
	state    int // 0 open, 1 publishing, 2 committed, not logged
}

type simRelay struct {
	id, process     string
	believed        int64 // end of the lease as the relay knows it
	dead, suspended bool
	lost            bool // begun again under another id: only finishes what is in flight
	deciding        *simItem
	items           []*simItem
}

type simItem struct {
	claim   int64
	message *simMessage
	state   int // as below
	outcome string
	asked   int64
	ok      bool
}

const (
	simIdle = iota
	simInFlight
	simAccepted
	simFailed
	simSent     // to be settled: the request is on its way
	simAnswered // the store has answered, the relay has not logged it
)

func simulate(pick func(int) int, bug string, steps int) []Event {
	s := &simulation{pick: pick, now: 1000, store: &simStore{bug: bug, rows: map[int64]*simRow{}, relays: map[string]int64{}, claims: map[int64]*simClaim{}}}
	for range 2 {
		s.startRelay(s.name("process"))
	}
	for range steps {
		s.step()
	}
	s.drain()
	return s.events
}

func (s *simulation) name(of string) string {
	s.names++
	return fmt.Sprintf("%s-%d", of, s.names)
}

func (s *simulation) log(process string, e Event) {
	e.At, e.Process = s.now, process
	s.events = append(s.events, e)
	s.now++
}

func (s *simulation) step() {
	s.now++
	switch n := s.pick(100); {
	case n < 12 && !s.settled:
		s.publish()
	case n < 26:
		s.advanceTx()
	case n < 27 && !s.settled && s.pick(5) == 0:
		s.disturb()
	case n == 28 && !s.settled:
		s.redrive()
	case n < 28 && !s.settled && s.pick(4) == 0:
		s.now += simLease / 2
	default:
		s.relayStep(s.relays[s.pick(len(s.relays))])
		s.relays = slices.DeleteFunc(s.relays, func(r *simRelay) bool { return r.dead || r.lost && len(r.items) == 0 })
	}
}

func (s *simulation) disturb() {
	s.log("harness", Event{Kind: Disturbed})
	clear(s.store.claims)
}

// drain lets everything come to an end.
func (s *simulation) drain() {
	s.settled = true
	for _, r := range s.relays {
		if r.suspended {
			s.resume(r)
		}
	}
	s.startRelay(s.name("process"))
	limit := 200_000
	if s.store.bug != "" {
		limit = 8_000 // some bugs keep it from ever coming to an end
	}
	for range limit {
		if s.idle() {
			return
		}
		s.step()
	}
}

func (s *simulation) idle() bool {
	return len(s.txs) == 0 && len(s.store.rows) == 0
}

func (s *simulation) publish() {
	tx := &simTx{}
	for range 1 + s.pick(2) {
		s.seq++
		m := &simMessage{id: fmt.Sprintf("m%d", s.seq), seq: s.seq, payload: "x"}
		if k := s.pick(4); k > 0 {
			m.key = fmt.Sprintf("k%d", k)
		}
		m.deferred = s.pick(10) == 0
		tx.messages = append(tx.messages, m)
		if s.store.has("visible before commit") {
			s.insert(m)
		}
	}
	s.txs = append(s.txs, tx)
}

func (s *simulation) insert(m *simMessage) {
	row := &simRow{simMessage: m, holds: !m.deferred}
	if m.deferred {
		row.due = s.now + 100
	}
	s.store.rows[m.seq] = row
}

// redrive gives a dead message another life.
func (s *simulation) redrive() {
	if len(s.store.dead) == 0 {
		return
	}
	i := s.pick(len(s.store.dead))
	row, since := s.store.dead[i], s.now
	s.store.dead = slices.Delete(s.store.dead, i, i+1)
	row.due, row.holds = 0, true
	if s.store.has("redriven hold no key") {
		row.due, row.holds = s.now+100, false
	}
	s.store.rows[row.seq] = row
	s.now++
	s.log("operator", Event{Kind: Redriven, Message: row.id, Since: since})
}

// advanceTx takes a transaction one step on, or lets its publisher die.
func (s *simulation) advanceTx() {
	if len(s.txs) == 0 {
		return
	}
	i := s.pick(len(s.txs))
	tx, fate := s.txs[i], s.pick(20)
	done := fate == 0 && !s.store.has("visible before commit")
	switch {
	case done:
	case tx.state == 0:
		s.logAll(tx, Publishing)
		tx.state = 1
	case tx.state == 1 && fate < 4 && !s.store.has("visible before commit"):
		s.logAll(tx, RolledBack)
		done = true
		if s.store.has("rollback keeps") {
			s.commit(tx)
		}
	case tx.state == 1:
		s.commit(tx)
		tx.state = 2
	default:
		s.logAll(tx, Committed)
		done = true
	}
	if done {
		s.txs = slices.Delete(s.txs, i, i+1)
	}
}

func (s *simulation) commit(tx *simTx) {
	for _, m := range tx.messages {
		if !(s.store.has("commit loses") && m.seq%7 == 0) && !s.store.has("visible before commit") {
			s.insert(m)
		}
	}
}

func (s *simulation) logAll(tx *simTx, kind Kind) {
	for _, m := range tx.messages {
		s.log("publisher", Event{Kind: kind, Message: m.id, Key: m.key, Payload: m.payload, Seq: m.seq, Deferred: m.deferred})
	}
}

func (s *simulation) startRelay(process string) {
	r := &simRelay{id: s.name("relay"), process: process}
	s.relays = append(s.relays, r)
	s.beat(r)
}

// beat extends the lease if the relay is registered, or registers it.
func (s *simulation) beat(r *simRelay) {
	asked := s.now
	s.now++
	if _, live := s.store.relays[r.id]; !live && r.believed != 0 {
		s.lose(r)
		return
	}
	s.store.relays[r.id] = s.now + simLease
	r.believed = asked + simLease
	s.now++
	s.log(r.process, Event{Kind: Leased, Relay: r.id, Until: r.believed})
}

// lose begins again under a new id; what is in flight finishes under the old one.
func (s *simulation) lose(r *simRelay) {
	s.log(r.process, Event{Kind: LeaseLost, Relay: r.id})
	r.lost, r.deciding = true, nil
	r.items = slices.DeleteFunc(r.items, func(i *simItem) bool { return i.state == simIdle })
	s.startRelay(r.process)
}

func (s *simulation) relayStep(r *simRelay) {
	fate := s.pick(200)
	switch {
	case r.dead:
	case fate == 0 && !s.settled:
		s.kill(r.process)
	case r.suspended:
		if fate < 12 {
			s.resume(r)
		}
	case fate == 1 && !s.settled:
		s.suspend(r.process)
	case fate == 2 && !s.settled && len(r.items) == 0 && !r.lost:
		s.stop(r)
	case fate < 30 && !r.lost:
		s.beat(r)
	case fate < 60 && !r.lost:
		s.claim(r)
	default:
		s.work(r)
	}
}

func (s *simulation) sameProcess(process string) []*simRelay {
	return slices.DeleteFunc(slices.Clone(s.relays), func(r *simRelay) bool { return r.process != process })
}

func (s *simulation) kill(process string) {
	s.log("harness", Event{Kind: Killed})
	s.events[len(s.events)-1].Process = process
	for _, r := range s.sameProcess(process) {
		r.dead = true
	}
	s.startRelay(s.name("process"))
}

func (s *simulation) suspend(process string) {
	s.log(process, Event{Kind: Suspended})
	for _, r := range s.sameProcess(process) {
		r.suspended = true
	}
}

func (s *simulation) resume(r *simRelay) {
	s.log(r.process, Event{Kind: Continued})
	for _, r := range s.sameProcess(r.process) {
		r.suspended = false
	}
}

func (s *simulation) stop(r *simRelay) {
	s.store.stop(r.id)
	s.log(r.process, Event{Kind: RelayStopped, Relay: r.id})
	r.dead = true
	s.startRelay(s.name("process"))
}

func (s *simulation) claim(r *simRelay) {
	if len(r.items) > 6 {
		return
	}
	since := s.now
	s.now++
	id, messages := s.store.claim(r.id, s.now, 1+s.pick(4))
	s.now++
	if id < 0 {
		s.lose(r)
		return
	}
	if len(messages) == 0 {
		return
	}
	s.log(r.process, Event{Kind: Claimed, Relay: r.id, Claim: id, Since: since})
	for _, m := range messages {
		r.items = append(r.items, &simItem{claim: id, message: m})
	}
}

// work takes one item of the relay a step on.
func (s *simulation) work(r *simRelay) {
	if r.deciding != nil {
		r.deciding.state = simInFlight
		s.logItem(r, r.deciding, Begun)
		r.deciding = nil
		return
	}
	if len(r.items) == 0 {
		return
	}
	switch i := r.items[s.pick(len(r.items))]; i.state {
	case simIdle:
		if s.now < r.believed && r.free(i) {
			r.deciding = i
		}
	case simInFlight:
		s.end(r, i)
	case simAccepted, simFailed:
		s.send(r, i)
	case simSent:
		i.ok = s.store.settle(i.claim, r.id, i.message, i.outcome, s.now+20)
		i.state = simAnswered
	case simAnswered:
		s.answer(r, i)
	}
}

// free reports whether nothing that the relay has in hand must be ended before the item.
func (r *simRelay) free(item *simItem) bool {
	for _, i := range r.items {
		if i == item {
			return true
		}
		if i.message.key != "" && i.message.key == item.message.key && (i.state < simAccepted || i.outcome != OutcomeDelivered) {
			return false
		}
	}
	return true
}

func (s *simulation) end(r *simRelay, i *simItem) {
	kind := Accepted
	i.state, i.outcome = simAccepted, OutcomeDelivered
	if s.pick(4) == 0 && !s.settled {
		kind, i.state, i.outcome = Failed, simFailed, OutcomeRetried
		if s.pick(4) == 0 {
			i.outcome = OutcomeDied
		}
		if s.store.has("failure is success") {
			i.outcome = OutcomeDelivered
		}
	}
	s.logItem(r, i, kind)
}

func (s *simulation) send(r *simRelay, i *simItem) {
	i.asked = s.now
	if i.outcome != OutcomeDelivered {
		s.logItem(r, i, Settling)
	}
	i.state = simSent
}

// answer logs what the store said and lets go of the item, and of those that a retried one takes with it.
func (s *simulation) answer(r *simRelay, i *simItem) {
	kind := Fenced
	if i.ok {
		kind = Settled
	}
	s.logItem(r, i, kind)
	r.items = slices.DeleteFunc(r.items, func(o *simItem) bool {
		behind := o.message.key != "" && o.message.key == i.message.key && o.state == simIdle && o.claim == i.claim && o.message.seq > i.message.seq
		return o == i || behind && (i.outcome == OutcomeRetried || !i.ok)
	})
}

func (s *simulation) logItem(r *simRelay, i *simItem, kind Kind) {
	m := i.message
	e := Event{Kind: kind, Relay: r.id, Destination: "d", Message: m.id, Seq: m.seq, Key: m.key, Payload: m.payload, Claim: i.claim, Outcome: i.outcome, Since: i.asked}
	if s.store.has("payload changes") && m.seq%7 == 0 {
		e.Payload = "y"
	}
	if s.store.has("seq changes") && m.seq%7 == 0 {
		e.Seq++
	}
	s.log(r.process, e)
}

// bugNames are the names of all bugs, in a fixed order.
func bugNames() []string { return slices.Sorted(maps.Keys(simBugs)) }
