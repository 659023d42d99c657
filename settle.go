package outbox

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/outboxrelay/outbox/internal/failpoint"
)

const (
	// settleFull is how many outcomes are not kept waiting for more.
	settleFull = 500
	// settleMost is how many outcomes one call takes, so that a claim is rarely split.
	settleMost = 1000
	// settleGather is how long the first outcome waits for others while deliveries are under way.
	settleGather = 3 * time.Millisecond
	// settleTries is how often a batch fails before its culprit is looked for.
	settleTries = 3
	// asideInterval spaces the attempts to settle an outcome that fails even alone.
	asideInterval = 5 * time.Second
	// plainText replaces a text that may be what the store cannot keep.
	plainText = "the error's text could not be stored"
)

// owner is who waits for an outcome to be stored.
type owner struct {
	lane    *lane
	session *session
	grip    *grip
	topic   string
	keyed   bool
	suspect bool // the relay may take the next one, in any lane
}

// results are outcomes and their owners, index by index.
type results struct {
	outcomes []Outcome
	owners   []owner
}

func (rs *results) append(o Outcome, ow owner) {
	rs.outcomes = append(rs.outcomes, o)
	rs.owners = append(rs.owners, ow)
}

func (rs results) len() int { return len(rs.outcomes) }

func (rs results) slice(from, to int) results {
	return results{rs.outcomes[from:to], rs.owners[from:to]}
}

// split divides the results in two, in order.
func (rs results) split(first func(i int) bool) (yes, no results) {
	for i := range rs.outcomes {
		if first(i) {
			yes.append(rs.outcomes[i], rs.owners[i])
		} else {
			no.append(rs.outcomes[i], rs.owners[i])
		}
	}
	return yes, no
}

// settler stores outcomes: one call at a time, while it runs the next batch gathers. An outcome stays until
// the store has answered for it, or its session's lease is lost and it has been tried once.
type settler struct {
	r    *running
	wake chan struct{} // outcomes have come, or are complete

	mu      sync.Mutex
	pending results
	spare   results         // the batch before, for its memory
	flushed []chan struct{} // closed when nothing is pending
	closed  bool

	// the loop's own
	aside  results // outcomes that fail even alone
	stop   chan struct{}
	ctx    context.Context // ends when a stopping relay has waited long enough
	giveUp context.CancelFunc
	ended  chan struct{}
}

func newSettler(r *running) *settler {
	ctx, giveUp := context.WithCancel(r.base)
	return &settler{r: r, wake: make(chan struct{}, 1), stop: make(chan struct{}),
		ctx: ctx, giveUp: giveUp, ended: make(chan struct{})}
}

// add hands an outcome to the loop; last says that no delivery is under way that could bring another soon.
func (st *settler) add(o Outcome, ow owner, last bool) {
	st.mu.Lock()
	if st.closed { // a handler that was abandoned has returned after all
		st.mu.Unlock()
		return
	}
	st.pending.append(o, ow)
	n := st.pending.len()
	st.mu.Unlock()
	if last || n == 1 || n == settleFull {
		st.kick()
	}
}

func (st *settler) kick() {
	select {
	case st.wake <- struct{}{}:
	default:
	}
}

func (st *settler) loop() {
	defer close(st.ended)
	timer := time.NewTimer(asideInterval)
	defer timer.Stop()
	for {
		select {
		case <-st.wake:
			st.gather()
		case <-timer.C:
			timer.Reset(asideInterval)
			st.retryAside()
		case <-st.stop:
			st.drain()
			return
		}
		for st.settleNext() {
		}
	}
}

// gather waits for more outcomes: until there are enough, none can come, or settleGather is over.
func (st *settler) gather() {
	timer := time.NewTimer(settleGather)
	defer timer.Stop()
	for st.r.inFlight.Load() > 0 && st.count() < settleFull {
		select {
		case <-st.wake:
		case <-timer.C:
			return
		case <-st.stop:
			return
		}
	}
}

func (st *settler) count() int {
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.pending.len()
}

// settleNext settles one batch, and reports whether another one is worth settling without gathering.
func (st *settler) settleNext() bool {
	batch := st.take()
	if batch.len() > 0 {
		st.settle(batch)
	}
	if st.isFlushing() {
		st.retryAside()
	}
	return st.putBack(batch)
}

func (st *settler) isFlushing() bool {
	st.mu.Lock()
	defer st.mu.Unlock()
	return len(st.flushed) > 0
}

func (st *settler) take() results {
	st.mu.Lock()
	defer st.mu.Unlock()
	n := st.pending.len()
	if n <= settleMost {
		batch := st.pending
		st.pending, st.spare = st.spare, results{}
		return batch
	}
	batch := st.pending.slice(0, settleMost)
	st.pending = st.pending.slice(settleMost, n)
	return batch
}

// putBack keeps the batch's memory for the next one, and tells whether that is full already.
func (st *settler) putBack(batch results) bool {
	clear(batch.outcomes)
	clear(batch.owners)
	st.mu.Lock()
	defer st.mu.Unlock()
	if cap(batch.outcomes) >= settleFull && batch.len() < settleMost {
		st.spare = batch.slice(0, 0)
	}
	n := st.pending.len()
	if n == 0 {
		for _, ch := range st.flushed {
			close(ch)
		}
		st.flushed = nil
	}
	if n > 0 {
		st.kick()
	}
	return n >= settleFull
}

// flush returns a channel that is closed once everything that was added has been tried.
func (st *settler) flush() <-chan struct{} {
	st.mu.Lock()
	defer st.mu.Unlock()
	ch := make(chan struct{})
	st.flushed = append(st.flushed, ch)
	st.kick()
	return ch
}

// finish settles what there is, at most for limit, and ends the loop. It returns how many outcomes are lost:
// their messages will be delivered again.
func (st *settler) finish(limit time.Duration) int {
	defer st.giveUp()
	timer := time.AfterFunc(limit, st.giveUp)
	defer timer.Stop()
	close(st.stop)
	<-st.ended
	st.mu.Lock()
	defer st.mu.Unlock()
	st.closed = true
	return st.pending.len() + st.aside.len()
}

func (st *settler) drain() {
	for st.count() > 0 && st.ctx.Err() == nil {
		st.settleNext()
	}
	st.retryAside()
}

// settle stores a batch, however long it takes. A batch that keeps failing is taken apart.
func (st *settler) settle(batch results) {
	retry := storeBackoff()
	for tries := 1; ; tries++ {
		if st.call(batch) == nil {
			return
		}
		batch = st.withoutLost(batch)
		if tries%settleTries == 0 && batch.len() > 0 {
			batch = st.isolate(batch)
		}
		if batch.len() == 0 {
			return
		}
		if sleep(st.ctx, retry.next()); st.ctx.Err() != nil {
			st.aside.appendAll(batch)
			return
		}
	}
}

func (rs *results) appendAll(more results) {
	rs.outcomes = append(rs.outcomes, more.outcomes...)
	rs.owners = append(rs.owners, more.owners...)
}

// withoutLost drops the outcomes of lost leases, which are tried only once.
func (st *settler) withoutLost(batch results) results {
	lost, kept := batch.split(func(i int) bool { return batch.owners[i].session.lost() })
	for i := range lost.outcomes {
		st.release(lost.owners[i])
	}
	return kept
}

// isolate settles one outcome after another, the delivered first, to find the ones that the store cannot
// take. Several failures in a row are not theirs but the store's: then the rest is returned, to be tried
// again, those that failed last.
func (st *settler) isolate(batch results) results {
	delivered, others := batch.split(func(i int) bool { return batch.outcomes[i].Kind == Delivered })
	delivered.appendAll(others)
	var failed results
	streak := 0
	for i := range delivered.outcomes {
		one := delivered.slice(i, i+1)
		if st.call(one) == nil {
			streak = 0
			continue
		}
		failed.appendAll(one)
		if streak++; streak == settleTries {
			rest := delivered.slice(i+1, delivered.len())
			return results{append(rest.outcomes, failed.outcomes...), append(rest.owners, failed.owners...)}
		}
	}
	st.aside.appendAll(failed)
	st.retryAside()
	return results{}
}

// retryAside tries again what failed alone: as it is, then with a plain text.
func (st *settler) retryAside() {
	var failed results
	for i := range st.aside.outcomes {
		one := st.aside.slice(i, i+1)
		if st.call(one) != nil && !st.callPlain(one) {
			failed.appendAll(one)
		}
	}
	st.aside = st.withoutLost(failed)
}

// callPlain reports whether an outcome could be settled without its text.
func (st *settler) callPlain(one results) bool {
	o := one.outcomes[0]
	if o.Text == "" {
		return false
	}
	o.Text = plainText
	return st.call(results{[]Outcome{o}, one.owners}) == nil
}

// call is one call of the store.
func (st *settler) call(batch results) error {
	r := st.r
	ctx, cancel := context.WithTimeout(st.ctx, callTimeout(r.cfg.Lease))
	defer cancel()
	failpoint.Hit("settle.before")
	end := r.calls.begin("settle")
	answers, err := r.store.Settle(ctx, batch.outcomes)
	end()
	failpoint.Hit("settle.after")
	if err == nil && len(answers) != batch.len() {
		err = fmt.Errorf("store answered %d of %d outcomes", len(answers), batch.len())
	}
	if err != nil {
		r.storeFailed("settle", err)
		return err
	}
	r.storeWorks("settle")
	st.settled(batch, answers)
	return nil
}

// settled passes the store's answers on.
func (st *settler) settled(batch results, answers []Settled) {
	var late refusals
	for i := range answers {
		o, ow := &batch.outcomes[i], &batch.owners[i]
		switch answers[i] {
		case SettledNow:
			st.r.counters.count(o.Kind)
			st.r.event(Event{Kind: EventSettled, Destination: ow.lane.name, Topic: ow.topic, Outcome: *o})
		case SettledFenced:
			st.r.fenced(ow.lane, ow.topic, o)
			if late == nil {
				late = refusals{}
			}
			late.add(ow.lane, o)
		}
		ow.grip.letGo(ow.session)
	}
	late.log(st.r.log)
	st.freeLanes(batch.owners)
}

// freeLanes tells each lane once how many of its outcomes are stored.
func (st *settler) freeLanes(owners []owner) {
	if slices.ContainsFunc(owners, func(ow owner) bool { return ow.suspect }) {
		defer st.r.pokeLanes()
	}
	for from := 0; from < len(owners); {
		to, keyed := from, false
		for ; to < len(owners) && owners[to].lane == owners[from].lane; to++ {
			keyed = keyed || owners[to].keyed
		}
		owners[from].lane.settled(to-from, keyed)
		from = to
	}
}

// release forgets an outcome that will not be stored.
func (st *settler) release(ow owner) {
	ow.grip.letGo(ow.session)
	ow.lane.settled(1, false)
}

// letGo counts a message of the token as settled; after the last one heartbeats no longer name it.
func (g *grip) letGo(s *session) {
	if g.left.Add(-1) == 0 {
		s.forget(g.token)
	}
}
