package outbox_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/outboxrelay/outbox"
	"github.com/outboxrelay/outbox/outboxtest"
)

var errDown = errors.New("connection refused")

// events collects a relay's events.
type events struct {
	mu  sync.Mutex
	all []outbox.Event
}

func (e *events) hooks() outbox.Hooks {
	return outbox.Hooks{Event: func(_ context.Context, ev outbox.Event) {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.all = append(e.all, ev)
	}}
}

func (e *events) count(kind outbox.EventKind) (n int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, ev := range e.all {
		if ev.Kind == kind {
			n++
		}
	}
	return n
}

// TestLeaseExpires: a relay that cannot extend its lease cancels its deliveries before the lease ends, and
// begins again under a new id, without an attempt spent.
func TestLeaseExpires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &faultyStore{Store: outboxtest.NewStore()}
		var down atomic.Bool
		var lastBeat time.Time
		store.beat = func(ctx context.Context, info outbox.RelayInfo, known []outbox.Token) (outbox.Orders, error) {
			if down.Load() {
				return outbox.Orders{}, errDown
			}
			lastBeat = time.Now()
			return store.Store.Beat(ctx, info, known)
		}
		publish(t, store.Store, messages(60, "a", "")...)
		var causes atomic.Int64
		var evs events
		r := start(t, store, sinkOf(func(ctx context.Context, d *outbox.Delivery) error {
			if !down.Load() || d.Attempt != 1 {
				return nil
			}
			<-ctx.Done()
			if errors.Is(context.Cause(ctx), outbox.ErrLeaseLost) && time.Since(lastBeat) < 30*time.Second {
				causes.Add(1)
			}
			return ctx.Err()
		}), outbox.Config{HandlerTimeout: time.Hour, MaxAttempts: 1, Hooks: evs.hooks()})
		<-r.Ready()
		synctest.Wait()
		down.Store(true)
		publish(t, store.Store, messages(60, "a", "")...)
		time.Sleep(29 * time.Second)
		if causes.Load() != 50 || evs.count(outbox.EventLeaseLost) != 1 {
			t.Errorf("%d cancelled, %d leases lost", causes.Load(), evs.count(outbox.EventLeaseLost))
		}
		down.Store(false)
		time.Sleep(time.Minute)
		r.mustStop()
		if c := store.Counts(); c.Delivered != 120 || c.Dead != 0 {
			t.Errorf("%+v", c)
		}
	})
}

// TestLateResult: a result that comes after the lease is over counts if nobody has taken the message over, and
// is refused if somebody has.
func TestLateResult(t *testing.T) {
	for name, other := range map[string]bool{"nobody took over": false, "taken over": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { testLateResult(t, other) })
		})
	}
}

func testLateResult(t *testing.T, other bool) {
	store := &faultyStore{Store: outboxtest.NewStore()}
	var down atomic.Bool
	store.beat = func(ctx context.Context, info outbox.RelayInfo, known []outbox.Token) (outbox.Orders, error) {
		if down.Load() {
			return outbox.Orders{}, errDown
		}
		return store.Store.Beat(ctx, info, known)
	}
	publish(t, store.Store, message("a", "", "1"))
	var evs events
	release := make(chan struct{})
	r := start(t, store, sinkOf(func(ctx context.Context, d *outbox.Delivery) error {
		<-release // a send that cannot be cancelled
		return nil
	}), outbox.Config{Hooks: evs.hooks()})
	synctest.Wait()
	down.Store(true)
	time.Sleep(31 * time.Second)
	sink := &outboxtest.Recorder{}
	if other {
		peer := start(t, store.Store.Peer(), outbox.To(sink), outbox.Config{})
		if err := sink.Wait(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		peer.mustStop()
	}
	close(release)
	time.Sleep(time.Second)
	r.mustStop()
	want := 0
	if other {
		want = 1
	}
	if c := store.Counts(); c.Delivered != 1 || evs.count(outbox.EventFenced) != 0 && !other {
		t.Errorf("%+v, %d fenced", c, evs.count(outbox.EventFenced))
	}
	if n := len(sink.Deliveries()); n != want {
		t.Errorf("delivered %d times by the other", n)
	}
}

// TestFenced: the message is with another relay and undecided when the late result comes.
func TestFenced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &faultyStore{Store: outboxtest.NewStore()}
		var down atomic.Bool
		store.beat = func(ctx context.Context, info outbox.RelayInfo, known []outbox.Token) (outbox.Orders, error) {
			if down.Load() {
				return outbox.Orders{}, errDown
			}
			return store.Store.Beat(ctx, info, known)
		}
		publish(t, store.Store, message("a", "", "1"))
		var evs events
		release, otherRelease := make(chan struct{}), make(chan struct{})
		wait := func(ch chan struct{}) []outbox.Route {
			return sinkOf(func(context.Context, *outbox.Delivery) error { <-ch; return nil })
		}
		r := start(t, store, wait(release), outbox.Config{Hooks: evs.hooks()})
		synctest.Wait()
		down.Store(true)
		time.Sleep(31 * time.Second)
		peer := start(t, store.Store.Peer(), wait(otherRelease), outbox.Config{})
		time.Sleep(time.Second)
		close(release)
		time.Sleep(time.Second)
		if evs.count(outbox.EventFenced) != 1 || store.Counts().Delivered != 0 {
			t.Errorf("%d fenced, %+v", evs.count(outbox.EventFenced), store.Counts())
		}
		r.mustStop()
		close(otherRelease)
		peer.mustStop()
		if store.Counts().Delivered != 1 {
			t.Errorf("%+v", store.Counts())
		}
	})
}

// TestLeaseTaken: the store has forgotten the relay; it begins again at once.
func TestLeaseTaken(t *testing.T) {
	for _, call := range []string{"heartbeat", "claim"} {
		t.Run(call, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := &faultyStore{Store: outboxtest.NewStore()}
				var lost atomic.Bool
				ids := map[outbox.ID]bool{}
				store.beat = func(ctx context.Context, info outbox.RelayInfo, known []outbox.Token) (outbox.Orders, error) {
					ids[info.ID] = true
					if call == "heartbeat" && info.Beat == 1 && !lost.Swap(true) {
						return outbox.Orders{}, outbox.ErrLeaseLost
					}
					return store.Store.Beat(ctx, info, known)
				}
				store.claim = func(ctx context.Context, q outbox.ClaimQuery) (outbox.Batch, error) {
					if call == "claim" && !lost.Swap(true) {
						return outbox.Batch{}, fmt.Errorf("claim: %w", outbox.ErrLeaseLost)
					}
					return store.Store.Claim(ctx, q)
				}
				sink := &outboxtest.Recorder{}
				r := start(t, store, outbox.To(sink), outbox.Config{})
				time.Sleep(11 * time.Second)
				publish(t, store.Store, message("a", "", "1"))
				time.Sleep(time.Second)
				r.mustStop()
				if len(ids) != 2 || store.Counts().Delivered != 1 {
					t.Errorf("%d ids, %+v", len(ids), store.Counts())
				}
			})
		})
	}
}

// TestClaimAnswerLost: the claim took effect, its answer did not arrive; the messages come back at once.
func TestClaimAnswerLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, sink := &faultyStore{Store: outboxtest.NewStore()}, &outboxtest.Recorder{}
		var lost atomic.Int64
		store.claim = func(ctx context.Context, q outbox.ClaimQuery) (outbox.Batch, error) {
			b, err := store.Store.Claim(ctx, q)
			if len(b.Claims) > 0 && lost.Add(1) == 1 {
				return outbox.Batch{}, errDown
			}
			return b, err
		}
		publish(t, store.Store, messages(10, "a", "k")...)
		began := time.Now()
		r := start(t, store, outbox.To(sink), outbox.Config{})
		if err := sink.Wait(t.Context(), 10); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took > 2*time.Second {
			t.Errorf("took %v", took)
		}
		synctest.Wait()
		r.mustStop()
		if got := payloads(sink.Deliveries()); got != "0 1 2 3 4 5 6 7 8 9 " {
			t.Errorf("delivered %s", got)
		}
	})
}

// TestTokensKnown: heartbeats name a claim for as long as its handler runs, and not after it is settled.
func TestTokensKnown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &faultyStore{Store: outboxtest.NewStore()}
		var known []int
		store.beat = func(ctx context.Context, info outbox.RelayInfo, tokens []outbox.Token) (outbox.Orders, error) {
			known = append(known, len(tokens))
			return store.Store.Beat(ctx, info, tokens)
		}
		publish(t, store.Store, message("a", "", "1"))
		r := start(t, store, sinkOf(func(context.Context, *outbox.Delivery) error {
			time.Sleep(45 * time.Second)
			return nil
		}), outbox.Config{})
		time.Sleep(65 * time.Second)
		r.mustStop()
		if want := []int{0, 1, 1, 1, 1, 0, 0, 0}; !slices.Equal(known, want) {
			t.Errorf("tokens known to the beats: %v, want %v", known, want)
		}
	})
}

// TestSettleFails: outcomes survive a store that fails, and are settled once it works.
func TestSettleFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, sink := &faultyStore{Store: outboxtest.NewStore()}, &outboxtest.Recorder{}
		began := time.Now()
		store.settle = func(ctx context.Context, os []outbox.Outcome) ([]outbox.Settled, error) {
			if time.Since(began) < 20*time.Second {
				return nil, errDown
			}
			return store.Store.Settle(ctx, os)
		}
		publish(t, store.Store, messages(200, "a", "")...)
		r := start(t, store, outbox.To(sink), outbox.Config{})
		time.Sleep(19 * time.Second)
		if n := len(sink.Deliveries()); n > 101 {
			t.Errorf("%d delivered with 50 slots while nothing could be settled", n)
		}
		time.Sleep(11 * time.Second)
		r.mustStop()
		if c := store.Counts(); c.Delivered != 200 || len(sink.Deliveries()) != 200 {
			t.Errorf("%+v, %d deliveries", c, len(sink.Deliveries()))
		}
	})
}

// TestSettleIsolatesCulprit: an outcome that the store cannot take does not keep the others from being settled.
func TestSettleIsolatesCulprit(t *testing.T) {
	for name, hopeless := range map[string]bool{"plain text helps": false, "nothing helps": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store, sink := &faultyStore{Store: outboxtest.NewStore()}, &outboxtest.Recorder{}
				store.settle = func(ctx context.Context, os []outbox.Outcome) ([]outbox.Settled, error) {
					for _, o := range os {
						if o.Seq == 7 && (hopeless || o.Text == "unstorable") {
							return nil, errors.New("invalid byte sequence")
						}
					}
					return store.Store.Settle(ctx, os)
				}
				sink.Answer(func(_ context.Context, d *outbox.Delivery) error {
					if d.Seq == 7 {
						return outbox.Permanent(errors.New("unstorable"))
					}
					return nil
				})
				publish(t, store.Store, messages(40, "a", "")...)
				r := start(t, store, outbox.To(sink), outbox.Config{})
				time.Sleep(2 * time.Second)
				publish(t, store.Store, messages(40, "a", "")...)
				time.Sleep(time.Second)
				r.mustStop()
				c, dead := store.Counts(), store.Dead()
				if c.Delivered != 79 {
					t.Errorf("%+v", c)
				}
				if !hopeless && (len(dead) != 1 || dead[0].Text == "unstorable" || dead[0].Class != "permanent") {
					t.Errorf("dead %+v", dead)
				}
			})
		})
	}
}

// TestStopDrains: running handlers finish, what has not begun is another relay's at once.
func TestStopDrains(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := outboxtest.NewStore()
		publish(t, store, messages(5, "a", "k")...)
		begun := make(chan struct{}, 10)
		routes := sinkOf(func(ctx context.Context, d *outbox.Delivery) error {
			begun <- struct{}{}
			time.Sleep(10 * time.Second)
			return ctx.Err()
		})
		r := start(t, store, routes, outbox.Config{})
		<-begun
		publish(t, store, messages(3, "b", "")...) // never begun: no slot was asked for them yet
		stopped := time.Now()
		r.cancel()
		sink := &outboxtest.Recorder{}
		other := start(t, store.Peer(), outbox.To(sink), outbox.Config{})
		if err := <-r.result; err != nil {
			t.Fatal(err)
		}
		if took := time.Since(stopped); took < 9*time.Second || took > 11*time.Second {
			t.Errorf("stop took %v", took)
		}
		time.Sleep(time.Second)
		other.mustStop()
		if c := store.Counts(); c.Delivered != 8 || c.Claimed != 0 {
			t.Errorf("%+v", c)
		}
		for _, d := range sink.Deliveries() {
			if d.Attempt != 1 {
				t.Errorf("attempt %d of a message that was given back", d.Attempt)
			}
		}
	})
}

// TestStopGivesBackAtOnce: another relay has the messages that were not begun while the first one drains.
func TestStopGivesBackAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := outboxtest.NewStore()
		ms := append([]outbox.Message{message("a", "k", "slow")}, messages(4, "a", "k")...)
		publish(t, store, ms...)
		release := make(chan struct{})
		r := start(t, store, sinkOf(func(context.Context, *outbox.Delivery) error { <-release; return nil }), outbox.Config{})
		synctest.Wait()
		r.cancel()
		time.Sleep(time.Second)
		sink := &outboxtest.Recorder{}
		other := start(t, store.Peer(), outbox.To(sink), outbox.Config{})
		time.Sleep(time.Second)
		if n := len(sink.Deliveries()); n != 0 {
			t.Errorf("%d delivered past the head that is still running", n)
		}
		close(release)
		if err := <-r.result; err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		other.mustStop()
		if got := payloads(sink.Deliveries()); got != "0 1 2 3 " {
			t.Errorf("delivered %s", got)
		}
	})
}

// TestDrainTimeout: at the limit handlers are cancelled with ErrShutdown, which costs no attempt.
func TestDrainTimeout(t *testing.T) {
	for name, abort := range map[string]bool{"at the limit": false, "aborted": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := outboxtest.NewStore()
				publish(t, store, message("a", "", "1"))
				r := start(t, store, sinkOf(func(ctx context.Context, d *outbox.Delivery) error {
					<-ctx.Done()
					return context.Cause(ctx)
				}), outbox.Config{MaxAttempts: 1, DrainTimeout: 10 * time.Second})
				synctest.Wait()
				began, want := time.Now(), 10*time.Second
				if abort {
					r.Abort()
					want = 0
				}
				r.mustStop()
				if took := time.Since(began); took < want || took > want+time.Second {
					t.Errorf("stop took %v", took)
				}
				if c := store.Counts(); c.Dead != 0 || c.Ready != 1 || c.Claimed != 1 { // given back: listed, nobody's
					t.Errorf("%+v", c)
				}
			})
		})
	}
}

// TestStuckHandler: a handler that never returns is reported, others flow, stop is obeyed, its message stays held.
func TestStuckHandler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, evs, log := &faultyStore{Store: outboxtest.NewStore()}, &events{}, &bytes.Buffer{}
		store.beat = func(ctx context.Context, info outbox.RelayInfo, known []outbox.Token) (outbox.Orders, error) {
			if info.Stopping {
				t.Error("the last heartbeat gives the stuck message back")
			}
			return store.Store.Beat(ctx, info, known)
		}
		never := make(chan struct{})
		defer close(never)
		publish(t, store.Store, message("a", "k", "stuck"), message("a", "k", "behind"))
		publish(t, store.Store, messages(10, "a", "")...)
		r := start(t, store, sinkOf(func(ctx context.Context, d *outbox.Delivery) error {
			if string(d.Payload) == "stuck" {
				stuckInHandler(never)
			}
			return nil
		}), outbox.Config{HandlerTimeout: time.Second, DrainTimeout: 5 * time.Second, Hooks: evs.hooks(),
			Logger: slog.New(slog.NewTextHandler(log, nil))})
		time.Sleep(time.Minute)
		if evs.count(outbox.EventStuck) != 1 || store.Counts().Delivered != 10 {
			t.Errorf("reported %d times, %+v", evs.count(outbox.EventStuck), store.Counts())
		}
		began := time.Now()
		if err := r.stop(); !errors.Is(err, outbox.ErrDrainTimeout) {
			t.Errorf("Run returned %v", err)
		}
		if took := time.Since(began); took > 8*time.Second {
			t.Errorf("stop took %v", took)
		}
		if c := store.Counts(); c.Claimed != 2 {
			t.Errorf("%+v", c)
		}
		if !strings.Contains(log.String(), "stuckInHandler") || !strings.Contains(log.String(), "abandoned") {
			t.Errorf("log without stack or name:\n%s", log)
		}
	})
}

func stuckInHandler(never chan struct{}) { <-never }

// TestStoreAbsentAtStart: the relay waits, logs one line per change, and then works.
func TestStoreAbsentAtStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, sink, log := &faultyStore{Store: outboxtest.NewStore()}, &outboxtest.Recorder{}, &bytes.Buffer{}
		began := time.Now()
		tries := 0
		store.beat = func(ctx context.Context, info outbox.RelayInfo, known []outbox.Token) (outbox.Orders, error) {
			if time.Since(began) < 30*time.Second {
				tries++
				return outbox.Orders{}, errDown
			}
			return store.Store.Beat(ctx, info, known)
		}
		publish(t, store.Store, message("a", "", "1"))
		r := start(t, store, outbox.To(sink), outbox.Config{Logger: slog.New(slog.NewTextHandler(log, nil))})
		<-r.Ready()
		synctest.Wait()
		r.mustStop()
		if took := time.Since(began); took > 36*time.Second || tries < 8 || tries > 20 {
			t.Errorf("ready after %v and %d tries", took, tries)
		}
		if n := strings.Count(log.String(), errDown.Error()); n != 1 || strings.Count(log.String(), "works again") != 1 {
			t.Errorf("not one line per change:\n%s", log)
		}
		if store.Counts().Delivered != 1 {
			t.Errorf("%+v", store.Counts())
		}
	})
}

// preparedStore is a store whose Prepare fails.
type preparedStore struct {
	*faultyStore
	prepare func() error
}

func (s *preparedStore) Prepare(context.Context) error { return s.prepare() }

func TestSchemaMissingEndsRun(t *testing.T) {
	for _, fatal := range []error{outbox.ErrSchemaMissing, outbox.ErrSchemaTooNew, &outbox.FieldError{Field: "Config.Schema"}} {
		synctest.Test(t, func(t *testing.T) {
			tries := 0
			store := &preparedStore{&faultyStore{Store: outboxtest.NewStore()}, func() error {
				if tries++; tries < 3 {
					return errDown
				}
				return fmt.Errorf("prepare: %w", fatal)
			}}
			r := start(t, store, outbox.To(&outboxtest.Recorder{}), outbox.Config{})
			if err := <-r.result; !errors.Is(err, fatal) || tries != 3 {
				t.Errorf("Run returned %v after %d tries", err, tries)
			}
			r.cancel()
		})
	}
}

func TestStopWhileAbsent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &preparedStore{&faultyStore{Store: outboxtest.NewStore()}, func() error { return errDown }}
		r := start(t, store, outbox.To(&outboxtest.Recorder{}), outbox.Config{})
		time.Sleep(time.Minute)
		began := time.Now()
		r.mustStop()
		if took := time.Since(began); took > time.Second {
			t.Errorf("stop took %v", took)
		}
	})
}

func TestLogsHolders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, log := outboxtest.NewStore(), &bytes.Buffer{}
		publish(t, store, messages(12, "a", "")...)
		release := make(chan struct{})
		r := start(t, store, sinkOf(func(context.Context, *outbox.Delivery) error { <-release; return nil }), outbox.Config{Host: "web-1"})
		synctest.Wait()
		other := start(t, store.Peer(), outbox.To(&outboxtest.Recorder{}),
			outbox.Config{Logger: slog.New(slog.NewTextHandler(log, nil))})
		<-other.Ready()
		if line := log.String(); !strings.Contains(line, "messages=12 host=web-1") || !strings.Contains(line, "return_at=2000-01-01T00:00:30") {
			t.Errorf("log:\n%s", line)
		}
		close(release)
		r.mustStop()
		other.mustStop()
	})
}

// TestBreakerProbesWithOneMessage: an unavailable destination gets one message per probe, costs no attempt, and
// recovers by itself with the order of keys kept.
func TestBreakerProbesWithOneMessage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, sink, evs := outboxtest.NewStore(), &outboxtest.Recorder{}, &events{}
		log := &bytes.Buffer{}
		began := time.Now()
		down := func() bool { return time.Since(began) < 10*time.Minute }
		var during atomic.Int64
		sink.Answer(func(context.Context, *outbox.Delivery) error {
			if down() {
				during.Add(1)
				return outbox.Unavailable(errDown)
			}
			return nil
		})
		for k := range 4 {
			publish(t, store, messages(50, "a", fmt.Sprint("k", k))...)
		}
		claims := &faultyStore{Store: store}
		var asked atomic.Int64
		claims.claim = func(ctx context.Context, q outbox.ClaimQuery) (outbox.Batch, error) {
			asked.Add(1)
			return store.Claim(ctx, q)
		}
		r := start(t, claims, outbox.To(sink), outbox.Config{MaxAttempts: 1, Hooks: evs.hooks(), Logger: slog.New(slog.NewTextHandler(log, nil))})
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		// 50 at once in the beginning, then a probe every 15 to 30 s and some before
		if n := during.Load(); n < 20 || n > 50+50 {
			t.Errorf("%d sent while it was down", n)
		}
		if n := asked.Load(); n > 60 {
			t.Errorf("%d claims while it was down", n)
		}
		time.Sleep(31 * time.Second)
		r.mustStop()
		if c := store.Counts(); c.Delivered != 200 || c.Dead != 0 {
			t.Errorf("%+v", c)
		}
		if strings.Count(log.String(), "is unavailable") != 1 || strings.Count(log.String(), "available again") != 1 {
			t.Errorf("not one line per change:\n%s", log)
		}
		if evs.count(outbox.EventClosed) < 20 {
			t.Errorf("%d closings told", evs.count(outbox.EventClosed))
		}
		next := map[string]int{}
		for _, d := range sink.Deliveries() {
			if d.Attempt != 1 {
				t.Fatalf("attempt %d", d.Attempt)
			}
			if n := next[d.Key]; string(d.Payload) == fmt.Sprint(n) {
				next[d.Key]++
			} else if string(d.Payload) > fmt.Sprint(n) && len(d.Payload) >= len(fmt.Sprint(n)) {
				t.Fatalf("key %s: %s before %d", d.Key, d.Payload, n)
			}
		}
	})
}

// TestBreakerOfOneHandler: in a Mux only the handler that is unavailable rests, and keys keep their order.
func TestBreakerOfOneHandler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, mux := outboxtest.NewStore(), outbox.NewMux()
		var good, bad atomic.Int64
		began := time.Now()
		mux.Handle("x.>", func(context.Context, *outbox.Delivery) error { good.Add(1); return nil })
		mux.Handle("x.bad", func(context.Context, *outbox.Delivery) error {
			bad.Add(1)
			if time.Since(began) < time.Minute {
				return outbox.Unavailable(errDown)
			}
			return nil
		})
		r := start(t, store, outbox.To(mux), outbox.Config{MaxAttempts: 1})
		publish(t, store, messages(30, "x.bad", "")...)
		publish(t, store, message("x.bad", "k", ""), message("x.good", "k", "")) // one key, two handlers
		for range 50 {
			publish(t, store, messages(10, "x.good", "")...)
			time.Sleep(time.Second)
		}
		if n := good.Load(); n != 500 {
			t.Errorf("%d of the good handler delivered beside the bad one", n)
		}
		if n := bad.Load(); n > 50 {
			t.Errorf("the bad handler was called %d times", n)
		}
		time.Sleep(time.Minute)
		r.mustStop()
		if c := store.Counts(); c.Delivered != 532 {
			t.Errorf("%+v", c)
		}
	})
}

// TestDestinationsApart: one destination that hangs does not slow another.
func TestDestinationsApart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, good := outboxtest.NewStore(), &outboxtest.Recorder{}
		hang := outbox.SinkFunc(func(ctx context.Context, _ *outbox.Delivery) error { <-ctx.Done(); return ctx.Err() })
		r := start(t, store, []outbox.Route{
			{Name: "hangs", Topics: []string{"a.>"}, Sink: hang},
			{Name: "good", Topics: []string{"a.b", ">"}, Sink: good},
		}, outbox.Config{})
		publish(t, store, messages(100, "a.b", "k")...)
		publish(t, store, messages(100, "b", "k")...)
		if err := good.Wait(t.Context(), 100); err != nil {
			t.Fatal(err)
		}
		r.mustStop()
		if c := store.Counts(); c.Delivered != 100 {
			t.Errorf("%+v", c)
		}
	})
}
