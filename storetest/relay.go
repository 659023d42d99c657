package storetest

import (
	"errors"
	"slices"
	"time"

	"github.com/outboxrelay/outbox"
)

const (
	defaultLane = "main"
	lease       = time.Minute
	// nothingCalls is how many claims must come back empty before the suite believes that there is nothing.
	nothingCalls = 3
	// endlessMore bounds how often a store may say that there is more without bringing anything.
	endlessMore = 100
	pollPause   = 2 * time.Millisecond
)

// topics makes a set of patterns.
func topics(patterns ...string) outbox.TopicSet {
	var s outbox.TopicSet
	for _, p := range patterns {
		s = append(s, outbox.TopicPattern{Pattern: p, In: true})
	}
	return s
}

func lane(destination string, patterns ...string) outbox.LaneInfo {
	return outbox.LaneInfo{Destination: destination, Topics: topics(patterns...)}
}

// relay plays one relay: it claims and settles as it is told and knows the tokens that it used.
type relay struct {
	e     *env
	store outbox.Store
	info  outbox.RelayInfo
	known []outbox.Token
}

// relay registers a relay with the given lanes, or with one lane for everything. The first is the one that
// its methods claim for.
func (e *env) relay(lanes ...outbox.LaneInfo) *relay {
	e.Helper()
	r := e.unregistered(lanes...)
	_, err := r.store.Beat(e.ctx, r.info, nil)
	e.must(err)
	return r
}

func (e *env) unregistered(lanes ...outbox.LaneInfo) *relay {
	if len(lanes) == 0 {
		lanes = []outbox.LaneInfo{lane(defaultLane, ">")}
	}
	return &relay{e: e, store: e.h.Open(e.TB), info: outbox.RelayInfo{
		ID: outbox.NewID(), Lease: lease, Lanes: lanes,
		Host: "host", PID: 4711, Version: "v0", Engine: "poll", Counters: map[string]int64{},
	}}
}

func (r *relay) tryBeat() error {
	r.info.Beat++
	_, err := r.store.Beat(r.e.ctx, r.info, r.known)
	return err
}

func (r *relay) beat() {
	r.e.Helper()
	r.e.must(r.tryBeat())
}

// stop ends the relay; claims whose tokens it still names are kept until its lease lapses.
func (r *relay) stop(named ...outbox.Token) {
	r.e.Helper()
	r.info.Stopping, r.known = true, named
	r.beat()
}

// option changes what a claim asks for.
type option func(q *outbox.ClaimQuery)

func limit(n int) option { return func(q *outbox.ClaimQuery) { q.Limit = n } }

func size(n int64) option { return func(q *outbox.ClaimQuery) { q.Bytes = n } }

func oversized(q *outbox.ClaimQuery) { q.Oversized = true }

func closed(patterns ...string) option {
	return func(q *outbox.ClaimQuery) { q.Closed = topics(patterns...) }
}

func on(destination string) option {
	return func(q *outbox.ClaimQuery) { q.Destination = destination }
}

func (r *relay) tryClaim(options ...option) (outbox.Batch, error) {
	q := outbox.ClaimQuery{
		Relay: r.info.ID, Destination: r.info.Lanes[0].Destination, Token: outbox.NewID(),
		Limit: 100, Bytes: 16 << 20,
	}
	for _, o := range options {
		o(&q)
	}
	r.known = append(r.known, q.Token)
	return r.store.Claim(r.e.ctx, q)
}

func (r *relay) claim(options ...option) outbox.Batch {
	r.e.Helper()
	batch, err := r.tryClaim(options...)
	r.e.must(err)
	return batch
}

// claimUntil claims until it has got n messages; more than n are a failure.
func (r *relay) claimUntil(n int, options ...option) []outbox.Claim {
	r.e.Helper()
	var claims []outbox.Claim
	for deadline := time.Now().Add(r.e.patience); ; {
		batch := r.claim(options...)
		claims = append(claims, batch.Claims...)
		switch got := deliveries(claims); {
		case len(got) > n:
			r.e.Fatalf("claimed %q, want %d messages only", labels(got), n)
		case len(got) == n:
			return claims
		case time.Now().After(deadline):
			r.e.Fatalf("claimed %q, want %d messages", labels(got), n)
		case len(batch.Claims) == 0:
			time.Sleep(pollPause)
		}
	}
}

// take claims until it has got n messages and returns them in the order of the claims.
func (r *relay) take(n int, options ...option) []*outbox.Delivery {
	r.e.Helper()
	return deliveries(r.claimUntil(n, options...))
}

// takes claims exactly the messages of these labels, in this order.
func (r *relay) takes(want ...string) []*outbox.Delivery {
	r.e.Helper()
	ds := r.take(len(want))
	r.e.equal("claimed", labels(ds), want)
	return ds
}

// takesNothing claims repeatedly and fails if that brings anything.
func (r *relay) takesNothing(options ...option) {
	r.e.Helper()
	for i := range endlessMore {
		batch := r.claim(options...)
		if ds := deliveries(batch.Claims); len(ds) > 0 {
			r.e.Fatalf("claimed %q, want nothing", labels(ds))
		}
		if !batch.More && i+1 >= nothingCalls {
			return
		}
	}
}

// drain claims and delivers until nothing comes any more, and returns what it delivered in order.
func (r *relay) drain(n int) []string {
	r.e.Helper()
	var done []string
	for deadline := time.Now().Add(r.e.patience); len(done) < n; {
		ds := deliveries(r.claim().Claims)
		if len(ds) == 0 && time.Now().After(deadline) {
			r.e.Fatalf("delivered %q, want %d messages", done, n)
		}
		done = append(done, labels(ds)...)
		r.deliver(ds...)
	}
	r.takesNothing()
	return done
}

func (r *relay) settle(outcomes ...outbox.Outcome) []outbox.Settled {
	r.e.Helper()
	answers, err := r.store.Settle(r.e.ctx, outcomes)
	r.e.must(err)
	if len(answers) != len(outcomes) {
		r.e.Fatalf("%d answers for %d outcomes", len(answers), len(outcomes))
	}
	return answers
}

// settled settles and demands that every outcome takes effect.
func (r *relay) settled(outcomes ...outbox.Outcome) {
	r.e.Helper()
	for i, answer := range r.settle(outcomes...) {
		if answer != outbox.SettledNow {
			r.e.Fatalf("outcome %d (%v of message %d) is %v, want settled",
				i, outcomes[i].Kind, outcomes[i].Seq, answer)
		}
	}
}

func (r *relay) deliver(ds ...*outbox.Delivery) {
	r.e.Helper()
	if len(ds) > 0 {
		r.settled(outcomes(outbox.Delivered, ds...)...)
	}
}

// leaseLost demands that err says so.
func (e *env) leaseLost(what string, err error) {
	e.Helper()
	if !errors.Is(err, outbox.ErrLeaseLost) {
		e.Fatalf("%s: got error %v, want ErrLeaseLost", what, err)
	}
}

func deliveries(claims []outbox.Claim) []*outbox.Delivery {
	var ds []*outbox.Delivery
	for _, c := range claims {
		ds = append(ds, c.Deliveries...)
	}
	return ds
}

func outcome(kind outbox.OutcomeKind, d *outbox.Delivery) outbox.Outcome {
	o := outbox.Outcome{Claim: d.Claim, Seq: d.Seq, Kind: kind}
	if kind == outbox.Retried || kind == outbox.Died {
		o.Attempts, o.Class, o.Text = d.Attempt, "error", "it failed"
	}
	return o
}

func outcomes(kind outbox.OutcomeKind, ds ...*outbox.Delivery) []outbox.Outcome {
	os := make([]outbox.Outcome, len(ds))
	for i, d := range ds {
		os[i] = outcome(kind, d)
	}
	return os
}

func retried(d *outbox.Delivery, delay time.Duration) outbox.Outcome {
	o := outcome(outbox.Retried, d)
	o.Delay = delay
	return o
}

// sorted returns the texts in order, for what may come in any order.
func sorted(texts []string) []string {
	return slices.Sorted(slices.Values(texts))
}
