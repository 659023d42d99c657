package storetest

import (
	"math/rand/v2"
	"os"
	"strconv"
	"time"

	"github.com/outboxrelay/outbox"
)

// seedVariable repeats a random schedule: its value is the seed that a failed run printed.
const seedVariable = "OUTBOX_TEST_SEED"

func historyCases() []Case {
	return []Case{
		{"a random schedule of failures keeps every promise", AtLeastOnce, randomSchedule},
	}
}

// randomSchedule publishes, commits late, rolls back, claims, loses answers, settles in all ways, kills
// relays and lets their late results arrive, over several relays and keys, one step at a time. A model knows
// what is committed and who holds what, and checks every claim and every answer against the promises of
// outbox.Store.
func randomSchedule(e *env) {
	seed := rand.Uint64()
	if text := os.Getenv(seedVariable); text != "" {
		var err error
		seed, err = strconv.ParseUint(text, 10, 64)
		e.must(err)
	}
	e.Logf("seed: %s=%d", seedVariable, seed)
	s := &schedule{env: e, Rand: rand.New(rand.NewPCG(seed, 0)), model: newModel()}
	for range 3 {
		s.join()
	}
	for range 500 {
		s.step()
	}
	s.finish()
}

// schedule is one random run.
type schedule struct {
	*env
	*rand.Rand
	model *model
	open  []*openTx
	alive []*relay
	late  []*outbox.Delivery // of killed relays
}

type openTx struct {
	tx     Tx
	labels []string
}

func (s *schedule) step() {
	s.Helper()
	roll := s.IntN(100)
	for _, choice := range []struct {
		share  int
		act    func()
		writes bool
	}{
		{18, s.publishSome, false}, {12, s.endTx, false}, {22, s.claimSome, true}, {24, s.settleHead, true},
		{5, s.loseAnswer, true}, {5, s.kill, true}, {8, s.settleLate, true}, {6, s.pass, true},
	} {
		if roll -= choice.share; roll < 0 {
			if choice.writes {
				s.endLast()
			}
			choice.act()
			return
		}
	}
}

func (s *schedule) join() {
	s.Helper()
	s.alive = append(s.alive, s.relay())
}

func (s *schedule) someRelay() *relay { return s.alive[s.IntN(len(s.alive))] }

// publishSome publishes in one of at most three open transactions.
func (s *schedule) publishSome() {
	s.Helper()
	if most := map[bool]int{false: 3, true: 1}; len(s.open) < most[s.h.Features().OneWriter] {
		s.open = append(s.open, &openTx{tx: s.begin()})
	}
	t := s.open[s.IntN(len(s.open))]
	for range 1 + s.IntN(4) {
		key := []string{"", "k1", "k2", "k3", "k4"}[s.IntN(5)]
		label := s.model.published(key)
		s.publishIn(t.tx, msg("a", key, label))
		t.labels = append(t.labels, label)
	}
}

// endLast ends the transaction that a store with one writer would wait for.
func (s *schedule) endLast() {
	s.Helper()
	if s.h.Features().OneWriter {
		s.endTx()
	}
}

// endTx commits, or sometimes rolls back, any of the open transactions.
func (s *schedule) endTx() {
	s.Helper()
	if len(s.open) == 0 {
		return
	}
	i := s.IntN(len(s.open))
	t := s.open[i]
	s.open = append(s.open[:i], s.open[i+1:]...)
	if s.IntN(5) == 0 {
		s.rollback(t.tx)
		return
	}
	s.commit(t.tx)
	s.model.committed(t.labels)
}

func (s *schedule) claimSome() {
	s.Helper()
	s.claimBy(s.someRelay())
}

func (s *schedule) claimBy(r *relay) []*outbox.Delivery {
	s.Helper()
	batch := r.claim(limit(1 + s.IntN(8)))
	for _, c := range batch.Claims {
		s.check(s.model.claimed(r, c))
	}
	return deliveries(batch.Claims)
}

func (s *schedule) check(fault error) {
	s.Helper()
	if fault != nil {
		s.Fatal(fault)
	}
}

// settleHead settles the oldest message that a relay holds of one key; when it is not delivered, the
// followers in its claim go with it.
func (s *schedule) settleHead() {
	s.Helper()
	r := s.someRelay()
	heads := s.model.heads(r)
	if len(heads) == 0 {
		return
	}
	m := heads[s.IntN(len(heads))]
	kinds := []outbox.OutcomeKind{
		outbox.Delivered, outbox.Delivered, outbox.Delivered, outbox.Delivered, outbox.Delivered,
		outbox.Dropped, outbox.Died, outbox.Retried, outbox.Retried, outbox.GivenBack,
	}
	kind := kinds[s.IntN(len(kinds))]
	os := []outbox.Outcome{outcome(kind, m.delivery)}
	if kind == outbox.Retried {
		os[0].Delay = time.Duration(s.IntN(10)) * time.Second
	}
	// One key only: what is parked stays so, and others are to be tested.
	os[0].Holds = kind == outbox.Died && m.key != "" && !s.model.parks() && s.IntN(2) == 0
	if kind == outbox.Retried || kind == outbox.GivenBack || os[0].Holds {
		with := map[outbox.OutcomeKind]outbox.OutcomeKind{outbox.Retried: outbox.Unlisted, outbox.Died: outbox.Unlisted, outbox.GivenBack: outbox.GivenBack}
		os = append(os, outcomes(with[kind], s.model.followers(m)...)...)
	}
	r.settled(os...)
	s.model.settled(os)
}

// loseAnswer claims without learning of it: two heartbeats later its messages are free.
func (s *schedule) loseAnswer() {
	s.Helper()
	r := s.someRelay()
	ds := s.claimBy(r)
	r.known = r.known[:len(r.known)-1]
	r.beat()
	r.beat()
	s.model.givenBack(ds)
}

// kill lets a relay's lease lapse and starts another.
func (s *schedule) kill() {
	s.Helper()
	i := s.IntN(len(s.alive))
	r := s.alive[i]
	s.alive = append(s.alive[:i], s.alive[i+1:]...)
	s.late = append(s.late, s.model.died(r)...)
	s.join()
	s.lapse(s.alive...)
}

// settleLate lets a result of a relay that was killed lately arrive.
func (s *schedule) settleLate() {
	s.Helper()
	if len(s.late) == 0 {
		return
	}
	i := max(0, len(s.late)-1-s.IntN(5))
	d := s.late[i]
	s.late = append(s.late[:i], s.late[i+1:]...)
	o := outcome(outbox.Delivered, d)
	s.check(s.model.settledLate(o, s.someRelay().settle(o)[0]))
}

func (s *schedule) pass() {
	s.Helper()
	s.advance(time.Duration(1+s.IntN(5))*time.Second, s.alive...)
}

// finish ends all transactions and delivers everything that is left.
func (s *schedule) finish() {
	s.Helper()
	for len(s.open) > 0 {
		s.endTx()
	}
	for _, r := range s.alive {
		r.stop()
		s.model.givenBack(s.model.heldBy(r))
	}
	r := s.relay()
	deliverable, behind := s.model.left()
	for deadline := time.Now().Add(3 * s.patience); deliverable > 0; deliverable, behind = s.model.left() {
		if time.Now().After(deadline) {
			s.Fatalf("%d messages are never delivered", deliverable)
		}
		ds := s.claimBy(r)
		if len(ds) == 0 {
			s.advance(time.Second, r)
			continue
		}
		r.deliver(ds...)
		s.model.settled(outcomes(outbox.Delivered, ds...))
	}
	left := s.counts()
	s.equal("messages behind a parked one", left.Ready+left.Waiting, behind)
	if behind == 0 {
		s.equal("what is left", left, Counts{Dead: s.model.dead})
	}
}
