package storetest

import (
	"fmt"
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

// race lets the relays work at the same time until n messages were claimed.
func (e *env) race(t *tally, n int, relays []*relay, work func(r *relay) error) {
	e.Helper()
	deadline := time.Now().Add(time.Minute)
	var group sync.WaitGroup
	for _, r := range relays {
		group.Go(func() {
			for !t.done(n) {
				if err := work(r); err != nil {
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
	e.race(t, n, []*relay{e.relay(), e.relay()}, func(r *relay) error {
		batch, err := r.tryClaim(limit(50))
		t.claimed(deliveries(batch.Claims))
		return err
	})
	e.equal("messages claimed", len(t.seen), n)
}

func keysInOrderConcurrently(e *env) {
	const n = 1000
	e.publishMany(n, func(i int) string { return fmt.Sprint("key ", i*7%13) })
	t := newTally()
	e.race(t, n, []*relay{e.relay(), e.relay(), e.relay(), e.relay()}, func(r *relay) error {
		batch, err := r.tryClaim(limit(20))
		ds := deliveries(batch.Claims)
		t.claimed(ds)
		t.settling(ds)
		if err == nil && len(ds) > 0 {
			_, err = r.store.Settle(e.ctx, outcomes(outbox.Delivered, ds...))
		}
		return err
	})
	e.equal("what is left", e.counts(), Counts{})
}

// settleAgainstTakeover lets a relay whose lease is over settle while others take over.
func settleAgainstTakeover(e *env) {
	const n = 200
	late, other := e.relay(), e.relay()
	e.publishMany(n, func(int) string { return "" })
	ds := late.take(n, limit(n))
	e.lapse(other)
	settled, taken := map[int64]bool{}, map[int64]bool{}
	var group sync.WaitGroup
	var settleErr, claimErr error
	group.Go(func() {
		for i := 0; i < n && settleErr == nil; i++ {
			var answers []outbox.Settled
			answers, settleErr = late.store.Settle(e.ctx, outcomes(outbox.Delivered, ds[i]))
			settled[ds[i].Seq] = settleErr == nil && answers[0] == outbox.SettledNow
		}
	})
	group.Go(func() {
		var batch outbox.Batch
		for calls := 0; calls < n && claimErr == nil; calls++ {
			batch, claimErr = other.tryClaim(limit(10))
			for _, d := range deliveries(batch.Claims) {
				taken[d.Seq] = true
			}
		}
	})
	group.Wait()
	e.must(settleErr)
	e.must(claimErr)
	for _, d := range ds {
		if settled[d.Seq] == taken[d.Seq] {
			e.Errorf("message %d: settled by the late relay: %v, taken over: %v", d.Seq, settled[d.Seq], taken[d.Seq])
		}
	}
}
