package outbox

import (
	"context"
	"time"
)

// Sampler is a Store that can tell a relay how the outbox is doing, at a cost that does not grow with it.
type Sampler interface {
	// Sample looks, if it is for this relay to look: of the live ones that have RelayInfo.Samples the oldest. It returns
	// nil for any other.
	Sample(ctx context.Context, relay ID) (*Sample, error)
}

// Sample is how an outbox was doing when one of its relays looked.
type Sample struct {
	// At is this process's clock. What is older than a few Config.SampleInterval is not how it is now.
	At time.Time
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
	// Published is the number of the newest message, Left how many have left the ready ones: delivered, dead or set aside
	// for a retry. The rates are their growth since the sample before; negative in the first one: unknown.
	Published, Left           int64
	InPerSecond, OutPerSecond float64
}

// registerPoll spaces the looks whether the relay has registered.
const registerPoll = 100 * time.Millisecond

// sample looks every SampleInterval, if hooks want to know and the store can tell.
func (r *running) sample(ctx context.Context) {
	if !r.samples() {
		return
	}
	defer r.sampled(nil)
	var before *Sample
	for ctx.Err() == nil {
		s := r.session.Load()
		if s == nil {
			sleep(ctx, registerPoll)
			continue
		}
		before = r.sampleNow(ctx, s.id, before)
		sleep(ctx, r.cfg.SampleInterval)
	}
}

// sampleNow looks once and returns the newest sample; after a failure that is the one before, which gets old.
func (r *running) sampleNow(ctx context.Context, relay ID, before *Sample) *Sample {
	now, err := r.sampleOnce(ctx, relay, before)
	switch {
	case ctx.Err() != nil:
		return before
	case err != nil:
		r.storeFailed("sample", err)
		return before
	}
	r.storeWorks("sample")
	if now != nil || before != nil {
		r.sampled(now)
	}
	return now
}

func (r *running) sampleOnce(ctx context.Context, relay ID, before *Sample) (*Sample, error) {
	ctx, cancel := context.WithTimeout(ctx, maxCallTimeout)
	defer cancel()
	s, err := r.store.(Sampler).Sample(ctx, relay)
	if err != nil || s == nil {
		return nil, err
	}
	s.InPerSecond, s.OutPerSecond = s.since(before)
	return s, nil
}

// since are the rates; a count that went backwards was reset.
func (s *Sample) since(before *Sample) (in, out float64) {
	if before == nil {
		return -1, -1
	}
	seconds := s.At.Sub(before.At).Seconds()
	if seconds <= 0 {
		return -1, -1
	}
	return float64(max(s.Published-before.Published, 0)) / seconds, float64(max(s.Left-before.Left, 0)) / seconds
}

// samples reports whether this relay may be the one that samples.
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
