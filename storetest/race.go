package storetest

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/outboxrelay/outbox"
)

func raceCases() []Case {
	return []Case{
		{"two relays that claim at the same time share everything and nothing twice", NoDouble, disjointClaims},
		{"keys stay in order over four relays at the same time", OrderPerKey, keysInOrderConcurrently},
		{"a settlement and a takeover at the same time never both count", NoDouble, settleAgainstTakeover},
	}
}

// publishMany publishes n messages, in transactions of 200, labelled by number.
func (e *env) publishMany(n int, key func(i int) string) {
	e.Helper()
	for start := 0; start < n; start += 200 {
		var ms []outbox.Message
		for i := start; i < min(start+200, n); i++ {
			ms = append(ms, msg("a", key(i), fmt.Sprintf("%06d", i)))
		}
		e.publish(ms...)
	}
}

// tally gathers what relays of several goroutines did, and what was wrong with it.
type tally struct {
	mu     sync.Mutex
	count  int
	seen   map[string]int
	flying map[string]outbox.ClaimRef
	last   map[string]string
	faults []string
}

func newTally() *tally {
	return &tally{seen: map[string]int{}, flying: map[string]outbox.ClaimRef{}, last: map[string]string{}}
}

func (t *tally) fault(format string, args ...any) {
	t.faults = append(t.faults, fmt.Sprintf(format, args...))
}

func (t *tally) claimed(ds []*outbox.Delivery) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, d := range ds {
		label := string(d.Payload)
		t.count++
		if t.seen[label]++; t.seen[label] > 1 {
			t.fault("message %s was claimed twice", label)
		}
		if d.Key == "" {
			continue
		}
		if ref, held := t.flying[d.Key]; held && ref != d.Claim {
			t.fault("key %s is in two claims", d.Key)
		}
		if label < t.last[d.Key] {
			t.fault("key %s: %s came after %s", d.Key, label, t.last[d.Key])
		}
		t.flying[d.Key], t.last[d.Key] = d.Claim, label
	}
}

// settling forgets the keys before the settlement frees them.
func (t *tally) settling(ds []*outbox.Delivery) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, d := range ds {
		delete(t.flying, d.Key)
	}
}

func (t *tally) failed(err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.fault("%v", err)
}

// done reports whether n messages were claimed, or something went wrong.
func (t *tally) done(n int) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.count >= n || len(t.faults) > 0
}

// race lets relays work at the same time until n messages were claimed.
func (e *env) race(t *tally, n int, relays ...func() error) {
	e.Helper()
	deadline := time.Now().Add(6 * e.patience)
	var group sync.WaitGroup
	for _, work := range relays {
		group.Go(func() {
			for !t.done(n) {
				if err := work(); err != nil {
					t.failed(err)
				}
				if time.Now().After(deadline) {
					t.failed(fmt.Errorf("the relays did not get all of %d messages", n))
				}
			}
		})
	}
	group.Wait()
	if len(t.faults) > 0 {
		e.Fatalf("%d faults, such as: %s", len(t.faults), t.faults[0])
	}
}

func disjointClaims(e *env) {
	const n = 2000
	e.publishMany(n, func(int) string { return "" })
	t := newTally()
	claiming := func(r *relay) func() error {
		return func() error {
			batch, err := r.tryClaim(limit(50))
			t.claimed(deliveries(batch.Claims))
			return err
		}
	}
	e.race(t, n, claiming(e.relay()), claiming(e.relay()))
	e.equal("messages claimed", len(t.seen), n)
}

func keysInOrderConcurrently(e *env) {
	const n = 1000
	e.publishMany(n, func(i int) string { return fmt.Sprint("key ", i*7%13) })
	t := newTally()
	var relays []func() error
	var last []func() error
	for range 4 {
		p := &pipeline{relay: e.relay(), tally: t}
		relays, last = append(relays, p.claimNext), append(last, p.settleHeld)
	}
	e.race(t, n, relays...)
	for _, settle := range last {
		e.must(settle())
	}
	e.equal("what is left", e.counts(), Counts{})
}

// pipeline is a relay that asks for the next messages before it settles the last ones.
type pipeline struct {
	relay *relay
	tally *tally
	held  []*outbox.Delivery
}

func (p *pipeline) claimNext() error {
	batch, err := p.relay.tryClaim(limit(20))
	if err != nil {
		return err
	}
	ds := deliveries(batch.Claims)
	p.tally.claimed(ds)
	if err := p.settleHeld(); err != nil {
		return err
	}
	p.held = ds
	return nil
}

func (p *pipeline) settleHeld() error {
	if len(p.held) == 0 {
		return nil
	}
	p.tally.settling(p.held)
	_, err := p.relay.store.Settle(p.relay.e.ctx, outcomes(outbox.Delivered, p.held...))
	return err
}

// settleAgainstTakeover lets a relay whose lease is over settle while another takes over: at the same time, or
// one just before the other.
func settleAgainstTakeover(e *env) {
	for round := range 12 {
		late := e.relay()
		e.publishMany(10, func(int) string { return "" })
		d := &duel{late: late, other: e.relay(), ds: late.take(10)}
		e.lapse(d.other)
		switch round % 3 {
		case 0:
			var group sync.WaitGroup
			group.Go(d.settle)
			group.Go(d.takeOver)
			group.Wait()
		case 1:
			d.settle()
			d.takeOver()
		case 2:
			d.takeOver()
			d.settle()
		}
		d.check(e)
	}
}

// duel is a late settlement against a takeover of the same messages.
type duel struct {
	late, other         *relay
	ds                  []*outbox.Delivery
	answers             []outbox.Settled
	settleErr, claimErr error
	taken               []*outbox.Delivery
}

func (d *duel) settle() {
	d.answers, d.settleErr = d.late.store.Settle(d.late.e.ctx, outcomes(outbox.Delivered, d.ds...))
}

func (d *duel) takeOver() {
	for range 2 * nothingCalls {
		batch, err := d.other.tryClaim()
		d.claimErr = errors.Join(d.claimErr, err)
		d.taken = append(d.taken, deliveries(batch.Claims)...)
	}
}

// check demands that each message was either settled or taken over, and ends the latter.
func (d *duel) check(e *env) {
	e.Helper()
	e.must(errors.Join(d.settleErr, d.claimErr))
	for i, m := range d.ds {
		taken := slices.ContainsFunc(d.taken, func(t *outbox.Delivery) bool { return t.Seq == m.Seq })
		if settled := d.answers[i] == outbox.SettledNow; settled == taken {
			e.Fatalf("message %d: settled late: %v, taken over: %v", m.Seq, settled, taken)
		}
	}
	d.other.deliver(d.taken...)
}
