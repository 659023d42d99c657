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
		store.settle = func(ctx context.Context, os []outbox.Outcome) ([]outbox.Settled, error) {
			for _, o := range os {
				if o.Kind != outbox.Delivered {
					t.Errorf("message %d of the lost lease was settled as %v", o.Seq, o.Kind)
				}
			}
			return store.Store.Settle(ctx, os)
		}
		publish(t, store.Store, messages(60, "a", "")...)
		var causes atomic.Int64
		var evs events
		r := start(t, store, sinkOf(func(ctx context.Context, d *outbox.Delivery) error {
			if !down.Load() || d.Attempt != 1 {
				return nil
			}
			<-ctx.Done()
			if errors.Is(context.Cause(ctx), outbox.ErrLeaseLost) && time.Since(lastBeat) == 27900*time.Millisecond {
				causes.Add(1)
			}
			return ctx.Err()
		}), outbox.Config{Lease: 31 * time.Second, HandlerTimeout: time.Hour, MaxAttempts: 1, Hooks: evs.hooks()})
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

// TestPrepareOnce: a store is prepared again after a failure, but not for every lease.
func TestPrepareOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		faulty := &faultyStore{Store: outboxtest.NewStore()}
		tries, lost := 0, false
		faulty.claim = func(ctx context.Context, q outbox.ClaimQuery) (outbox.Batch, error) {
			if !lost {
				lost = true
				return outbox.Batch{}, outbox.ErrLeaseLost
			}
			return faulty.Store.Claim(ctx, q)
		}
		store := &preparedStore{faulty, func() error {
			if tries++; tries < 3 {
				return errDown
			}
			return nil
		}}
		r := start(t, store, outbox.To(&outboxtest.Recorder{}), outbox.Config{})
		<-r.Ready()
		r.mustStop()
		if tries != 3 {
			t.Errorf("prepared %d times", tries)
		}
	})
}

// TestNothingSentAfterLease: behind a handler that outlives the lease, nothing more of the claim is sent.
func TestNothingSentAfterLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, sink := &faultyStore{Store: outboxtest.NewStore()}, &outboxtest.Recorder{}
		store.beat = func(ctx context.Context, info outbox.RelayInfo, known []outbox.Token) (outbox.Orders, error) {
			if len(sink.Deliveries()) > 0 {
				return outbox.Orders{}, errDown
			}
			return store.Store.Beat(ctx, info, known)
		}
		sink.Answer(func(context.Context, *outbox.Delivery) error { time.Sleep(28 * time.Second); return nil })
		publish(t, store.Store, messages(3, "a", "k")...)
		r := start(t, store, outbox.To(sink), outbox.Config{})
		time.Sleep(time.Minute)
		r.mustStop()
		if n := len(sink.Deliveries()); n != 1 {
			t.Errorf("%d sent", n)
		}
	})
}

// brokenStore lacks its schema from the first claim on.
type brokenStore struct{ *outboxtest.Store }

func (brokenStore) Claim(context.Context, outbox.ClaimQuery) (outbox.Batch, error) {
	return outbox.Batch{}, fmt.Errorf("claim: %w", outbox.ErrSchemaMissing)
}

// TestRunUntilIdleGivesUp: what trying again will not help ends a relay that runs once.
func TestRunUntilIdleGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		relay, err := outbox.NewRelay(brokenStore{outboxtest.NewStore()}, outbox.To(&outboxtest.Recorder{}), nil)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if _, err := relay.RunUntilIdle(ctx); !errors.Is(err, outbox.ErrSchemaMissing) {
			t.Errorf("RunUntilIdle returned %v", err)
		}
	})
}
