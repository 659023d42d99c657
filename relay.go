package outbox

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"
)

// Relay delivers messages from a Store to sinks and handlers. Make one with NewRelay; its methods may be
// called from any goroutine.
//
// # How it works
//
// A call of Run is one "running", which owns these goroutines and awaits them all before Run returns:
//
//	for the whole of Run      settle loop   settle.go    stores outcomes, one call at a time
//	                          watch         watch.go     stuck handlers, wall clock, summary line
//	                          wake-ups      wake.go      Wait of the store, for all lanes
//	                          maintain      maintain.go  the store's housekeeping
//	                          sample        sample.go    how the outbox is doing, for hooks that want to know
//	                          listener      –            Listener.Listen of the store, if it has one
//	for each session          lease loop    lease.go     heartbeats, until everything is settled
//	                          lane loops    lane.go      one per destination: claim and dispatch
//	while there is work       workers       dispatch.go  deliver runs of messages, or batches (batch.go)
//
// A session is one registration with the store: an id and its lease. It begins with the first heartbeat and
// ends in one of two ways. Stopped: the lane loops end, workers give back what they have not begun and drain,
// the settle loop stores what there is, and only then the lease loop ends with the last heartbeat. Lost:
// delivery contexts are cancelled, workers forget what they have not begun, what has finished is settled once
// under the old id (TestLostOutcomesTriedOnce), and the next session begins.
//
// A message of a claim moves, within one lane, through
//
//	queued ──worker takes its run──▶ being delivered ──result──▶ unsettled ──store answers──▶ gone
//	   └──stop, lost lease, closed breaker, failed head of its key──────▲
//
// and these invariants hold at every instant:
//
//   - A lane holds (queued and being delivered) at most its slots; while more than as many are unsettled it
//     does not claim. (TestSlotsBound, TestSlotsOfOne)
//   - A run's messages are delivered one after another, by one worker or each in another batch, and a claim's
//     messages of one key are one run, so a key has one delivery at a time. (TestKeyOneAtATime,
//     TestBatchKeyOrder) A sink that pipelines has one wave of them at a time. (TestPipelineRandomFaults)
//   - No message is sent unless the lease lasts at that moment, and a lost lease cancels what was sent.
//     (TestLeaseExpires, TestLeaseSuspended)
//   - A suspect (suspect.go) shares no batch, and when it is settled all lanes look for the next one at once. One that
//     has crashed is not queued but unsettled from the start. (TestSuspectNotInABatch, TestSuspectsFollowAtOnce,
//     TestCrashed)
//   - Each message that was claimed gets exactly one outcome, unless its lease is lost or its handler never
//     returns; an outcome stays with the settle loop until the store has answered for it.
//     (TestSettleFails, TestSettleIsolatesCulprit, TestStuckHandler)
//   - Heartbeats name a token from before its claim is asked for until its last message is settled, so the
//     store keeps neither more nor less than the relay knows of. (TestTokensKnown, TestClaimAnswerLost)
//   - Handlers run without any lock held. A lane's lock and the settle loop's are never held together.
type Relay struct {
	store    Store
	cfg      Config
	policies policies
	specs    []*laneSpec
	ready    chan struct{}
	abort    chan struct{}

	readyOnce, abortOnce sync.Once
	current              atomic.Pointer[running]

	mu   sync.Mutex
	busy bool
	ran  bool
}

const (
	// stopPatience is how long a stopping relay lets a claim call end by itself.
	stopPatience = time.Second
	// cancelGrace is how long cancelled handlers may take to return.
	cancelGrace = 2 * time.Second
	// stopLimit bounds the last settling, and then the last heartbeat.
	stopLimit = 5 * time.Second
)

// NewRelay makes a relay that delivers what the routes name; cfg may be nil. It does not touch the store. All
// mistakes in routes, handlers and configuration are returned together, as *FieldErrors in one error. Without
// routes, or with a Mux that has no handler, the relay idles.
func NewRelay(store Store, routes []Route, cfg *Config) (*Relay, error) {
	specs, err := laneSpecs(routes)
	if store == nil {
		err = errors.Join(fieldError("Store", "nil", "a relay needs a store"), err)
	}
	if err := errors.Join(err, cfg.check()); err != nil {
		return nil, fmt.Errorf("relay configuration: %w", err)
	}
	c := cfg.WithDefaults()
	return &Relay{
		store: store, cfg: c, policies: newPolicies(c), specs: specs,
		ready: make(chan struct{}), abort: make(chan struct{}),
	}, nil
}

// Ready is closed once Run has made its first heartbeat and each destination its first claim.
func (r *Relay) Ready() <-chan struct{} { return r.ready }

func (r *Relay) setReady() { r.readyOnce.Do(func() { close(r.ready) }) }

// Abort makes a Run whose context is cancelled skip the rest of DrainTimeout: running handlers are cancelled
// now. It is for the second of two stop signals.
func (r *Relay) Abort() { r.abortOnce.Do(func() { close(r.abort) }) }

// Run delivers until ctx is cancelled. Then it stops claiming, gives back what it has not begun, waits up to
// Config.DrainTimeout for running handlers, cancels those that are left with ErrShutdown, stores all results
// and returns nil. A handler that does not return even then makes it return ErrDrainTimeout; that handler's
// message stays held until the lease lapses.
//
// A store that is absent, at the start or later, is waited for. Run gives up only on ErrSchemaMissing,
// ErrSchemaTooNew and what the store refuses as misconfigured (*FieldError). A relay runs once: a second Run
// is an error.
func (r *Relay) Run(ctx context.Context) error {
	if err := r.begin(true); err != nil {
		return err
	}
	defer r.end()
	if r.cfg.DisableRelay {
		r.setReady()
		<-ctx.Done()
		return nil
	}
	_, err := newRunning(ctx, r, false).run(ctx)
	return err
}

// RunUntilIdle delivers everything that is due now, what becomes due meanwhile included, and returns what
// became of it. It awaits no backoff and no unavailable destination, and gives up on errors of the store that
// trying again will not help, such as ErrSchemaMissing. If ctx ends before that, it stops as
// Run does and returns the context's error. It may be called repeatedly, but not while the relay runs.
func (r *Relay) RunUntilIdle(ctx context.Context) (Counts, error) {
	if err := r.begin(false); err != nil {
		return Counts{}, err
	}
	defer r.end()
	if r.cfg.DisableRelay {
		return Counts{}, nil
	}
	rn := newRunning(ctx, r, true)
	idle, err := rn.run(ctx)
	if err == nil && !idle {
		err = fmt.Errorf("stopped before the outbox was idle: %w", context.Cause(ctx))
	}
	return rn.counters.counts(), err
}

var errRunning = errors.New("the relay is running or has run")

func (r *Relay) begin(final bool) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.busy || r.ran {
		return errRunning
	}
	r.busy, r.ran = true, final
	return nil
}

func (r *Relay) end() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.busy = false
}

// running is one call of Run.
type running struct {
	*Relay
	once    bool // until idle
	log     *slog.Logger
	base    context.Context // Run's, without its end
	began   time.Time
	lanes   []*lane
	settler *settler
	session atomic.Pointer[session]
	done    chan struct{}

	inFlight    atomic.Int64 // messages held by all lanes
	ticked      atomic.Int64 // when the watch last went round
	calls       calls        // of the store, under way
	lastSample  atomic.Pointer[Sample]
	clockOffset atomic.Int64 // nanoseconds that the store's clock is ahead of this one
	claimed     atomic.Int64 // messages claimed by all lanes so far
	counters    counters
	summarised  Counts // by the last summary line
	troubles    troubles
	prepared    bool

	mu        sync.Mutex
	unclaimed map[*lane]struct{} // lanes that have not made a claim yet
	hopeless  error              // the last error of the store that trying again will not help
}

func newRunning(ctx context.Context, r *Relay, once bool) *running {
	rn := &running{
		Relay: r, once: once, log: r.cfg.Logger, base: context.WithoutCancel(ctx), began: time.Now(),
		done: make(chan struct{}), unclaimed: map[*lane]struct{}{},
	}
	rn.troubles.of = map[string]*trouble{}
	rn.ticked.Store(rn.began.UnixNano())
	rn.settler = newSettler(rn)
	for _, spec := range r.specs {
		if spec.topics.IsEmpty() {
			continue
		}
		l := newLane(rn, spec)
		rn.lanes = append(rn.lanes, l)
		rn.unclaimed[l] = struct{}{}
	}
	r.current.Store(rn)
	return rn
}

// run serves session after session. It reports whether it ended because nothing was left to do.
func (r *running) run(ctx context.Context) (idle bool, err error) {
	r.relayStart()
	endLoops := r.startLoops()
	defer func() {
		endLoops()
		r.logSummary("relay stopped")
	}()
	for {
		s, err := r.register(ctx)
		if s == nil {
			return false, errors.Join(err, r.finish())
		}
		switch r.serve(ctx, s) {
		case servedLost:
			r.restart(ctx, s)
		case servedIdle:
			return true, errors.Join(r.stop(s), r.whyHopeless())
		case servedStopped:
			return false, r.stop(s)
		}
	}
}

// startLoops starts what runs from beginning to end, and returns what ends and awaits it.
func (r *running) startLoops() (end func()) {
	var wg sync.WaitGroup
	ctx, cancel := context.WithCancel(r.base)
	go r.settler.loop()
	wg.Go(r.watch)
	wg.Go(func() { r.maintain(ctx) })
	wg.Go(func() { r.sample(ctx) })
	wg.Go(func() { r.passWakeUps(ctx) })
	if listener, ok := r.store.(Listener); ok {
		wg.Go(func() { listener.Listen(ctx) })
	}
	return func() {
		close(r.done)
		cancel()
		wg.Wait()
	}
}

// register begins a session, as often as it takes; nil without an error: ctx ended before. Each try has an
// id of its own, because a heartbeat whose answer was lost may have registered the last one.
func (r *running) register(ctx context.Context) (*session, error) {
	retry := storeBackoff()
	for ctx.Err() == nil {
		s := newSession(r)
		orders, err := r.tryRegister(ctx, s)
		if err == nil {
			r.storeWorks("register")
			s.begin()
			r.session.Store(s)
			r.log.Info("relay registered", "relay", s.id.String(), "host", r.cfg.Host, "lease", r.cfg.Lease.String())
			r.logHolders(orders.Holders, time.Now())
			return s, nil
		}
		s.cancel(err)
		if isFatal(err) {
			return nil, fmt.Errorf("register relay: %w", err)
		}
		if ctx.Err() == nil {
			r.storeFailed("register", err)
			sleep(ctx, retry.next())
		}
	}
	return nil, nil
}

func (r *running) tryRegister(ctx context.Context, s *session) (Orders, error) {
	if p, ok := r.store.(Preparer); ok && !r.prepared {
		if err := p.Prepare(ctx); err != nil {
			return Orders{}, err
		}
		r.prepared = true
	}
	return s.register(ctx)
}

// isFatal: waiting will not help.
func isFatal(err error) bool {
	var refused *FieldError
	return errors.Is(err, ErrSchemaMissing) || errors.Is(err, ErrSchemaTooNew) || errors.As(err, &refused)
}

// served tells why a session is not served any longer.
type served uint8

const (
	servedStopped served = iota
	servedLost
	servedIdle
)

// serve runs the session's loops until it stops, or has nothing left to do. The lanes' loops have ended
// when it returns, the lease loop only if the lease is lost.
func (r *running) serve(ctx context.Context, s *session) served {
	s.keep = newKeeper(s)
	if len(r.lanes) == 0 {
		r.setReady()
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		r.runLanes(s)
	}()
	var idle <-chan struct{}
	if r.once {
		idle = ended
	}
	why := servedStopped
	select {
	case <-ctx.Done():
	case <-s.ctx.Done():
	case <-idle:
		why = servedIdle
	}
	if s.lost() {
		why = servedLost
	}
	s.stopping.Store(why != servedLost)
	s.halt()
	patience := time.AfterFunc(stopPatience, s.abort)
	defer patience.Stop()
	<-ended
	return why
}

// runLanes runs the lanes' loops until the session stops. A relay that runs until idle goes round until no lane
// has claimed anything: what one delivers may have published for another.
func (r *running) runLanes(s *session) {
	for again := true; again; {
		before := r.claimed.Load()
		var loops sync.WaitGroup
		for _, l := range r.lanes {
			loops.Go(func() { l.loop(s) })
		}
		loops.Wait()
		again = s.waits.Err() == nil && r.claimed.Load() != before
	}
}

// restart cleans up after a lost lease.
func (r *running) restart(ctx context.Context, s *session) {
	r.log.Error("lease lost, deliveries are cancelled, the relay begins again", "relay", s.id.String())
	r.event(Event{Kind: EventLeaseLost})
	s.keep.stop()
	r.awaitWorkers(cancelGrace, ctx.Done())
	select {
	case <-r.settler.flush():
	case <-time.After(stopLimit):
	}
	s.close()
}

// stop ends a session whose lanes no longer claim, in the order that the comment on Relay gives.
func (r *running) stop(s *session) error {
	if !r.awaitWorkers(r.cfg.DrainTimeout, r.abort) {
		s.end(ErrShutdown)
	}
	err := r.finish()
	s.keep.stop()
	if err == nil && !s.lost() {
		s.goodbye()
	}
	s.close()
	return err
}

// finish waits for cancelled handlers, gives up those that do not return, and stores all results.
func (r *running) finish() error {
	r.awaitWorkers(cancelGrace, nil)
	abandoned := r.abandon()
	if unsettled := r.settler.finish(stopLimit); unsettled > 0 {
		r.log.Error("results could not be stored, these messages will be delivered again", "messages", unsettled)
	}
	if abandoned > 0 {
		return fmt.Errorf("%w: %d still running", ErrDrainTimeout, abandoned)
	}
	return nil
}

// awaitWorkers waits until no worker is left, at most for limit or until cut short.
func (r *running) awaitWorkers(limit time.Duration, short <-chan struct{}) bool {
	over := make(chan struct{})
	timer := time.AfterFunc(limit, func() { close(over) })
	defer timer.Stop()
	for _, l := range r.lanes {
		if !l.awaitWorkers(over, short) {
			return false
		}
	}
	return true
}

// abandon names the handlers that have not returned, and counts their messages.
func (r *running) abandon() (n int) {
	for _, l := range r.lanes {
		for _, w := range l.stuckWorkers(time.Now(), -forever) {
			n += r.logAbandoned(l, w)
		}
	}
	return n
}

func (r *running) setHopeless(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.hopeless = err
}

func (r *running) whyHopeless() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.hopeless
}

// firstClaim tells that a lane has made a claim.
func (r *running) firstClaim(l *lane) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.unclaimed) == 0 {
		return
	}
	if delete(r.unclaimed, l); len(r.unclaimed) == 0 {
		r.setReady()
	}
}
