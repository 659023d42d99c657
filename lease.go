package outbox

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// beatsPerLease is how many heartbeats fit into a lease.
	beatsPerLease = 3
	// maxCallTimeout bounds every call of the store.
	maxCallTimeout = 10 * time.Second
	// minCallTimeout is what a call may take however short the lease is.
	minCallTimeout = 3 * time.Second
	// longWait is how long a heartbeat is waited for, when there would be no time for another.
	longWait = 2 * time.Second
	// registerTries is how many heartbeats a session may take to begin.
	registerTries = 3
)

// callTimeout is the deadline of a call of the store that is not a heartbeat. Only the lease ends the claims of a relay, and heartbeats go
// on beside the call: one that takes longer than a short lease is of use if the lease has lasted, and refused if not. A
// deadline that a busy store cannot keep would make it do everything in vain (docs/adr/0008-deadlines.md).
func callTimeout(lease time.Duration) time.Duration {
	return min(max(lease/beatsPerLease, minCallTimeout), maxCallTimeout)
}

// session is one registration of the relay: an id with a lease. When the lease is lost the session ends and
// the relay begins another one under a new id, without leaving Run.
//
// The lease is taken to last nine tenths of its length, counted from before the request that extended it, by
// the monotonic or the wall clock, whichever ends first: so deliveries are cancelled while the store still
// honours the claims, whatever the network took and even if the process was suspended
// (TestLeaseExpires, TestLeaseSuspended).
type session struct {
	r  *running
	id ID

	ctx    context.Context // of deliveries; its cause is ErrLeaseLost or ErrShutdown
	cancel context.CancelCauseFunc
	after  context.Context // what a handler that kept its context finds: cancelled
	waits  context.Context // of the lanes' waiting: ends before, when the relay stops claiming
	halt   context.CancelFunc
	claims context.Context // of claim calls under way, which a stopping relay lets end if they are quick
	abort  context.CancelFunc

	stopping atomic.Bool // nothing more is delivered
	over     atomic.Bool // the lease is lost
	endedAt  atomic.Int64

	monoUntil atomic.Int64 // nanoseconds since the relay began
	wallUntil atomic.Int64 // nanoseconds since 1970
	expiry    *time.Timer

	keep   *keeper
	kick   chan struct{} // heartbeats are wanted out of turn
	mu     sync.Mutex
	beat   int64 // number of the next heartbeat
	extra  int   // heartbeats wanted out of turn
	tokens map[Token]struct{}
}

func newSession(r *running) *session {
	s := &session{r: r, id: NewID(), kick: make(chan struct{}, 1), tokens: map[Token]struct{}{}}
	s.ctx, s.cancel = context.WithCancelCause(r.base)
	after, cancel := context.WithCancel(s.ctx)
	cancel()
	s.after = after
	s.waits, s.halt = context.WithCancel(s.ctx)
	s.claims, s.abort = context.WithCancel(s.ctx)
	return s
}

// end cancels what still runs, for the given cause.
func (s *session) end(cause error) {
	s.endedAt.CompareAndSwap(0, time.Now().UnixNano())
	s.cancel(cause)
}

// lose ends the session because its lease is over.
func (s *session) lose() {
	s.over.Store(true)
	s.end(ErrLeaseLost)
}

// close releases what an ended session still has.
func (s *session) close() {
	s.expiry.Stop()
	s.end(ErrShutdown)
}

func (s *session) lost() bool { return s.over.Load() }

// valid reports whether the lease certainly lasts.
func (s *session) valid(now time.Time) bool {
	return !s.lost() && int64(now.Sub(s.r.began)) < s.monoUntil.Load() && now.UnixNano() < s.wallUntil.Load()
}

// left is how long the lease certainly lasts.
func (s *session) left(now time.Time) time.Duration {
	mono := time.Duration(s.monoUntil.Load()) - now.Sub(s.r.began)
	return max(min(mono, time.Duration(s.wallUntil.Load()-now.UnixNano())), 0)
}

// length is how long the lease lasts from a heartbeat on.
func (s *session) length() time.Duration { return s.r.cfg.Lease * 9 / 10 }

// extend takes the lease to last from before the request that extended it.
func (s *session) extend(sent time.Time) {
	s.monoUntil.Store(int64(sent.Sub(s.r.began) + s.length()))
	s.wallUntil.Store(sent.UnixNano() + int64(s.length()))
	if s.expiry != nil {
		s.expiry.Reset(s.length() - time.Since(sent))
	}
}

// begin watches the end of the lease from now on.
func (s *session) begin() { s.expiry = time.AfterFunc(s.left(time.Now()), s.expired) }

func (s *session) expired() {
	if !s.valid(time.Now()) { // a timer that was reset too late
		s.lose()
	}
}

func (s *session) callTimeout() time.Duration { return callTimeout(s.r.cfg.Lease) }

// beatTimeout is the deadline of a heartbeat: soon enough for another one, over another connection, before the lease ends. A short lease has no
// time for that, so that all that is left is waited for. Before the session begins, and when it ends, there is nothing to be lost.
func (s *session) beatTimeout(stopping bool) time.Duration {
	if s.expiry == nil || stopping {
		return s.callTimeout()
	}
	return max(min(s.r.cfg.Lease/beatsPerLease, maxCallTimeout), min(s.left(time.Now()), longWait))
}

// sleep waits, unless the session stops.
func (s *session) sleep(d time.Duration) { sleep(s.waits, d) }

func sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// know makes heartbeats name the token.
func (s *session) know(t Token) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tokens[t] = struct{}{}
}

func (s *session) forget(t Token) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.tokens, t)
}

// beatSoon asks for a heartbeat at once.
func (s *session) beatSoon() {
	select {
	case s.kick <- struct{}{}:
	default: // one is wanted already
	}
}

// beatTwice asks for two heartbeats at once: they give back what was claimed under a forgotten token.
func (s *session) beatTwice() {
	s.mu.Lock()
	s.extra = 2
	s.mu.Unlock()
	s.beatSoon()
}

// register is the first heartbeat. It may take as long as a connection takes to be made, and the lease counts from before. If too little is left
// then, another one extends it.
func (s *session) register(ctx context.Context) (Orders, error) {
	orders, err := s.send(ctx, false)
	for tries := 1; err == nil && s.left(time.Now()) < s.length()*2/3; tries++ {
		if tries == registerTries {
			return orders, fmt.Errorf("heartbeats take more than a third of the lease, %v: make it longer", s.r.cfg.Lease)
		}
		_, err = s.send(ctx, false)
	}
	return orders, err
}

// send is one heartbeat.
func (s *session) send(ctx context.Context, stopping bool) (Orders, error) {
	s.mu.Lock()
	info := s.r.info(s.id, s.beat)
	known := slices.Collect(maps.Keys(s.tokens))
	s.beat++
	s.mu.Unlock()
	info.Stopping = stopping
	ctx, cancel := context.WithTimeout(ctx, s.beatTimeout(stopping))
	defer cancel()
	sent := time.Now()
	end := s.r.calls.begin("heartbeat")
	orders, err := s.r.store.Beat(ctx, info, known)
	end()
	if err == nil && !stopping {
		s.extend(sent)
		s.r.setClock(orders.Now, sent)
		s.r.event(Event{Kind: EventBeat, Relay: s.id, Took: time.Since(sent)})
	}
	return orders, err
}

func (r *running) info(id ID, beat int64) RelayInfo {
	info := RelayInfo{
		ID: id, Lease: r.cfg.Lease, Beat: beat, Host: r.cfg.Host, PID: os.Getpid(), Version: r.cfg.Version,
		Engine: "poll", Counters: r.tally(), Settings: settingsDigest(&r.cfg),
	}
	info.Lanes, info.Samples = r.laneInfos(), r.samples()
	return info
}

// tally is what heartbeats count: what became of messages, and how many are stuck now.
func (r *running) tally() map[string]int64 {
	counts, stuck, now := r.counters.values(), 0, time.Now()
	for _, l := range r.lanes {
		for _, w := range l.stuckWorkers(now, stuckGrace) {
			if a := w.current.Load(); a != nil {
				stuck += a.messages()
			}
		}
	}
	counts["stuck"] = int64(stuck)
	return counts
}

func (r *running) laneInfos() (lanes []LaneInfo) {
	unordered := r.policies.unordered()
	for _, l := range r.lanes {
		lanes = append(lanes, LaneInfo{Destination: l.name, Topics: l.topics, Unordered: unordered, Fault: l.faults.worst()})
	}
	return lanes
}

// keeper is the lease loop of a session.
type keeper struct {
	cancel context.CancelFunc
	ended  chan struct{}
}

func newKeeper(s *session) *keeper {
	ctx, cancel := context.WithCancel(s.r.base)
	k := &keeper{cancel, make(chan struct{})}
	go func() {
		defer close(k.ended)
		s.keepLease(ctx)
	}()
	return k
}

func (k *keeper) stop() {
	k.cancel()
	<-k.ended
}

// keepLease sends heartbeats until ctx ends or the lease is lost.
func (s *session) keepLease(ctx context.Context) {
	retry := storeBackoff()
	retry.policy.Max = time.Second
	every := s.r.cfg.Lease / beatsPerLease
	timer := time.NewTimer(every)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		case <-s.kick:
		}
		if s.lost() {
			return
		}
		if !s.keepOnce(ctx) {
			timer.Reset(min(every, retry.next()))
			continue
		}
		retry.reset()
		timer.Reset(every)
		if s.moreWanted() {
			timer.Reset(0)
		}
	}
}

// keepOnce reports whether a heartbeat succeeded.
func (s *session) keepOnce(ctx context.Context) bool {
	_, err := s.send(ctx, false)
	switch {
	case err == nil:
		s.r.storeWorks("heartbeat")
		return true
	case errors.Is(err, ErrLeaseLost):
		s.lose()
	case ctx.Err() == nil:
		s.r.storeFailed("heartbeat", err)
	}
	return false
}

// moreWanted counts a heartbeat that was wanted out of turn, and reports whether another one is.
func (s *session) moreWanted() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.extra = max(s.extra-1, 0)
	return s.extra > 0
}

// goodbye gives everything back and takes the relay off the store's list.
func (s *session) goodbye() {
	const tries = 3
	ctx, cancel := context.WithTimeout(s.r.base, stopLimit)
	defer cancel()
	retry := storeBackoff()
	for range tries {
		_, err := s.send(ctx, true)
		if err == nil || errors.Is(err, ErrLeaseLost) {
			return
		}
		s.r.storeFailed("last heartbeat", err)
		sleep(ctx, retry.next())
	}
}
