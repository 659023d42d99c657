package outbox

import (
	"context"
	"time"
)

// Sampler is a Store that can tell a relay how the outbox is doing, at a cost that does not grow with it.
type Sampler interface {
	// Sample looks, if it is for this relay to look: the oldest live one that has RelayInfo.Samples, if none has that the
	// oldest of all. It returns nil for any other.
	Sample(ctx context.Context, relay ID) (*Sample, error)
}

// Sample is how an outbox was doing when one of its relays looked.
type Sample struct {
	// At is this process's clock, Interval the time to the next look. What is older than a few of these is not how it is now.
	At       time.Time
	Interval time.Duration
	Depths
	// OldestEligible is how long the message that has waited longest could have been delivered already: not one that
	// waits behind its key, is scheduled, waits for its next attempt or is held by a relay. Zero: there is none. With
	// more than 10,000 blocked ones in front it is the age of the one after these.
	OldestEligible time.Duration
	// HeldKeys and HeldLongest are those of Status.
	HeldKeys    Depth
	HeldLongest time.Duration
	// Unhandled counts ready messages of topics that no live relay delivers, as Status.Unhandled does.
	Unhandled Depth
	// Relays counts the live ones.
	Relays int
	// Entered is how many messages were ever published, those rolled back included, Left how often one has left the ready
	// ones: delivered, dead or set aside for a retry. Both only grow, until the database's statistics are reset.
	Entered, Left int64
	// SlotRetained are the bytes of its log that the database keeps for the relay that streams, SlotUnconfirmed those that
	// this relay has not confirmed. Zero: none streams.
	SlotRetained, SlotUnconfirmed int64
}

const (
	// registerPoll spaces the looks whether the relay has registered.
	registerPoll = 100 * time.Millisecond
	// summaryLead is how long before the summary line a relay looks that has no other reason to.
	summaryLead = 5 * time.Second
)

// sample looks now and then, if the store can tell: for hooks from the beginning and every SampleInterval, else once for
// each line of summary.
func (r *running) sample(ctx context.Context) {
	if _, can := r.store.(Sampler); !can {
		return
	}
	interval := r.cfg.SampleInterval
	if !r.samples() {
		interval = summaryInterval
		sleep(ctx, summaryInterval-summaryLead)
	}
	defer r.sampled(nil)
	for ctx.Err() == nil {
		s := r.session.Load()
		if s == nil {
			sleep(ctx, registerPoll)
			continue
		}
		r.sampleNow(ctx, s.id)
		sleep(ctx, interval)
	}
}

// sampleNow looks once. After a failure the sample before stays, and gets old.
func (r *running) sampleNow(ctx context.Context, relay ID) {
	before := r.lastSample.Load()
	now, err := r.sampleOnce(ctx, relay)
	switch {
	case ctx.Err() != nil:
	case err != nil:
		r.storeFailed("sample", err)
	default:
		r.storeWorks("sample")
		if r.lastSample.Store(now); now != nil || before != nil {
			r.sampled(now)
		}
	}
}

// sampled tells the hook.
func (r *running) sampled(s *Sample) {
	if r.samples() {
		guard(r.log, "Sampled", func() { r.cfg.Hooks.Sampled(r.base, s) })
	}
}

func (r *running) sampleOnce(ctx context.Context, relay ID) (*Sample, error) {
	ctx, cancel := context.WithTimeout(ctx, maxCallTimeout)
	defer cancel()
	s, err := r.store.(Sampler).Sample(ctx, relay)
	if s != nil {
		s.At, s.Interval = time.Now(), r.cfg.SampleInterval
	}
	return s, err
}

// samples reports whether a hook wants samples.
func (r *running) samples() bool {
	_, can := r.store.(Sampler)
	return can && r.cfg.Hooks.Sampled != nil
}

// setClock notes how far the store's clock is ahead, taking its answer to be from the middle of the call.
func (r *running) setClock(store, sent time.Time) {
	if !store.IsZero() {
		middle := sent.Add(time.Since(sent) / 2)
		r.clockOffset.Store(int64(store.Sub(middle)))
	}
}
