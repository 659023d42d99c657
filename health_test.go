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

// waiting handlers return when they are released.
func waiting(release chan struct{}) []outbox.Route {
	return sinkOf(func(context.Context, *outbox.Delivery) error { <-release; return nil })
}

func wantHealth(t *testing.T, r *outbox.Relay, live, ready bool, problem string) outbox.Health {
	t.Helper()
	h := r.Health()
	if h.Live != live || h.Ready != ready || problem == "" && len(h.Problems) > 0 ||
		!slices.ContainsFunc(append(h.Problems, ""), func(p string) bool { return strings.Contains(p, problem) }) {
		t.Errorf("live %v, ready %v, problems %q; want %v, %v, %q", h.Live, h.Ready, h.Problems, live, ready, problem)
	}
	return h
}

// TestHealth follows a relay from before its start to its end.
func TestHealth(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &faultyStore{Store: outboxtest.NewStore()}
		publish(t, store.Store, messages(3, "a", "")...)
		var up atomic.Bool
		store.beat = func(ctx context.Context, info outbox.RelayInfo, known []outbox.Token) (outbox.Orders, error) {
			if !up.Load() {
				return outbox.Orders{}, errDown
			}
			return store.Store.Beat(ctx, info, known)
		}
		release := make(chan struct{})
		idle, err := outbox.NewRelay(store, waiting(release), &outbox.Config{Logger: quiet()})
		if err != nil {
			t.Fatal(err)
		}
		wantHealth(t, idle, true, false, "has not been started")
		r := start(t, store, waiting(release), outbox.Config{})
		time.Sleep(time.Minute)
		wantHealth(t, r.Relay, true, false, "has not registered")
		wantHealth(t, r.Relay, true, false, "the store fails (register)")
		up.Store(true)
		time.Sleep(time.Minute)
		h := wantHealth(t, r.Relay, true, true, "")
		if h.Relay.IsZero() || h.LeaseLeft < 10*time.Second || len(h.Lanes) != 1 || h.Lanes[0].InFlight != 3 || !h.Running {
			t.Errorf("%+v", h)
		}
		close(release)
		time.Sleep(time.Second)
		r.mustStop()
		wantHealth(t, r.Relay, true, false, "has stopped")
	})
}

// TestHealthOfDisabled: one that delivers nothing has nothing to wait for.
func TestHealthOfDisabled(t *testing.T) {
	r, err := outbox.NewRelay(outboxtest.NewStore(), nil, &outbox.Config{DisableRelay: true})
	if err != nil {
		t.Fatal(err)
	}
	wantHealth(t, r, true, true, "")
}

// TestHealthOfDestinations: one of two that is down changes nothing; both do, and only readiness.
func TestHealthOfDestinations(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := outboxtest.NewStore()
		publish(t, store, message("a.x", "", "1"))
		gone := outbox.SinkFunc(func(context.Context, *outbox.Delivery) error { return outbox.Unavailable(errDown) })
		r := start(t, store, []outbox.Route{{Name: "a", Topics: []string{"a.>"}, Sink: gone}, {Name: "b", Topics: []string{"b.>"}, Sink: gone}}, outbox.Config{})
		time.Sleep(5 * time.Minute)
		h := wantHealth(t, r.Relay, true, true, "")
		if h.Lanes[0].Fault == nil || h.Lanes[1].Fault != nil {
			t.Errorf("%+v", h.Lanes)
		}
		publish(t, store, message("b.x", "", "1"))
		time.Sleep(time.Minute)
		wantHealth(t, r.Relay, true, false, "no destination takes messages")
		r.mustStop()
	})
}

// TestHealthOfStuckHandlers: handlers that ignore their end and hold all slots are no progress.
func TestHealthOfStuckHandlers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, release := outboxtest.NewStore(), make(chan struct{})
		publish(t, store, messages(3, "a", "")...)
		routes := sinkOf(func(context.Context, *outbox.Delivery) error { <-release; return nil })
		routes[0].Slots = 2
		r := start(t, store, routes, outbox.Config{HandlerTimeout: time.Second})
		time.Sleep(10 * time.Second)
		wantHealth(t, r.Relay, true, true, "")
		time.Sleep(time.Minute)
		wantHealth(t, r.Relay, true, false, "no progress")
		close(release)
		time.Sleep(time.Second)
		wantHealth(t, r.Relay, true, true, "")
		r.mustStop()
	})
}

// TestHealthOfHungStore: a call that ignores its deadline is what a restart may cure.
func TestHealthOfHungStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, release := &faultyStore{Store: outboxtest.NewStore()}, make(chan struct{})
		var hang atomic.Bool
		store.claim = func(ctx context.Context, q outbox.ClaimQuery) (outbox.Batch, error) {
			if hang.Load() {
				<-release
			}
			return store.Store.Claim(ctx, q)
		}
		r := start(t, store, outbox.To(&outboxtest.Recorder{}), outbox.Config{})
		time.Sleep(5 * time.Second)
		hang.Store(true)
		time.Sleep(20 * time.Second)
		wantHealth(t, r.Relay, true, true, "")
		time.Sleep(time.Minute)
		wantHealth(t, r.Relay, false, false, "ignores its deadline")
		hang.Store(false)
		close(release)
		time.Sleep(time.Second)
		wantHealth(t, r.Relay, true, true, "")
		r.mustStop()
	})
}

// TestLogOfDeadStore: hours without a database cost lines for what changed and the summaries, not for each try.
func TestLogOfDeadStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, log := &faultyStore{Store: outboxtest.NewStore()}, &lockedText{}
		publish(t, store.Store, messages(100, "a", "")...)
		var down atomic.Bool
		var calls atomic.Int64
		ask := func() error {
			if down.Load() {
				calls.Add(1)
				return errDown
			}
			return nil
		}
		store.claim = func(ctx context.Context, q outbox.ClaimQuery) (outbox.Batch, error) {
			if err := ask(); err != nil {
				return outbox.Batch{}, err
			}
			return store.Store.Claim(ctx, q)
		}
		store.settle = func(ctx context.Context, os []outbox.Outcome) ([]outbox.Settled, error) {
			if err := ask(); err != nil {
				return nil, err
			}
			return store.Store.Settle(ctx, os)
		}
		store.beat = func(ctx context.Context, info outbox.RelayInfo, known []outbox.Token) (outbox.Orders, error) {
			if err := ask(); err != nil {
				return outbox.Orders{}, err
			}
			return store.Store.Beat(ctx, info, known)
		}
		r := start(t, store, sinkOf(func(context.Context, *outbox.Delivery) error { time.Sleep(10 * time.Second); return nil }),
			outbox.Config{Logger: slog.New(slog.NewTextHandler(log, nil))})
		time.Sleep(15 * time.Second)
		down.Store(true)
		const hours = 2
		time.Sleep(hours * time.Hour)
		lines := strings.Count(log.String(), "\n") - strings.Count(log.String(), "relay summary")
		if summaries := strings.Count(log.String(), "relay summary"); summaries < hours*60-1 || summaries > hours*60+1 {
			t.Errorf("%d lines of summary", summaries)
		}
		if calls.Load() < 500 || lines > 10 {
			t.Errorf("%d failing calls made %d lines beside the summaries:\n%s", calls.Load(), lines, log.String())
		}
		down.Store(false)
		time.Sleep(2 * time.Minute)
		if n := strings.Count(log.String(), "store works again"); n < 2 {
			t.Errorf("%d lines say that the store is back:\n%s", n, log.String())
		}
		r.mustStop()
	})
}

// TestLogOfFlappingStore: a store that fails every other call costs a line a minute and its end, not two for each try; when it
// fails for good that is told.
func TestLogOfFlappingStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, log := &faultyStore{Store: outboxtest.NewStore()}, &lockedText{}
		var calls atomic.Int64
		var dead atomic.Bool
		store.claim = func(ctx context.Context, q outbox.ClaimQuery) (outbox.Batch, error) {
			if calls.Add(1)%2 == 0 || dead.Load() {
				return outbox.Batch{}, errDown
			}
			return store.Store.Claim(ctx, q)
		}
		r := start(t, store, sinkOf(func(context.Context, *outbox.Delivery) error { return nil }),
			outbox.Config{Logger: slog.New(slog.NewTextHandler(log, nil))})
		time.Sleep(time.Hour)
		failed, works := strings.Count(log.String(), "store failed"), strings.Count(log.String(), "store works again")
		if calls.Load() < 1000 || failed < 2 || failed > 61 || works < failed-1 || works > failed {
			t.Errorf("%d calls, of which every other failed, made %d lines of failure and %d of its end", calls.Load(), failed, works)
		}
		dead.Store(true)
		time.Sleep(2 * time.Minute)
		if text := log.String(); strings.LastIndex(text, "store failed") < strings.LastIndex(text, "store works again") {
			t.Errorf("that it fails for good is not told:\n%s", text)
		}
		r.mustStop()
	})
}

// TestLogOfRefusedResults: what is refused together is one line.
func TestLogOfRefusedResults(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, log := &faultyStore{Store: outboxtest.NewStore()}, &lockedText{}
		const n = 1000
		publish(t, store.Store, messages(n, "a", "")...)
		var refused atomic.Int64
		store.settle = func(_ context.Context, os []outbox.Outcome) ([]outbox.Settled, error) {
			refused.Add(int64(len(os)))
			answers := make([]outbox.Settled, len(os))
			for i := range answers {
				answers[i] = outbox.SettledFenced
			}
			return answers, nil
		}
		routes := outbox.To(&outboxtest.Recorder{})
		routes[0].Slots = n
		events := atomic.Int64{}
		r := start(t, store, routes, outbox.Config{Logger: slog.New(slog.NewTextHandler(log, nil)), Hooks: outbox.Hooks{
			Event: func(_ context.Context, e outbox.Event) {
				if e.Kind == outbox.EventFenced {
					events.Add(1)
				}
			}}})
		time.Sleep(10 * time.Second)
		r.mustStop()
		lines := strings.Count(log.String(), "results refused")
		if refused.Load() < n || events.Load() != refused.Load() || r.Health().Counts.Fenced != refused.Load() || lines == 0 || lines > 20 {
			t.Errorf("%d results were refused, %d told to hooks, %d counted, in %d lines", refused.Load(), events.Load(), r.Health().Counts.Fenced, lines)
		}
	})
}

// TestSummaryTellsWhatIsBehind: the line of the relay that looks has the backlog and its age, also without hooks, in words
// that JSON keeps.
func TestSummaryTellsWhatIsBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &bytes.Buffer{}
		looks := 0
		store := &sampledStore{outboxtest.NewStore(), func() (*outbox.Sample, error) {
			looks++
			s := &outbox.Sample{OldestEligible: 90 * time.Second}
			s.Ready.Messages = 17
			return s, nil
		}}
		r := start(t, store, outbox.To(&outboxtest.Recorder{}), outbox.Config{Logger: slog.New(slog.NewJSONHandler(log, nil))})
		time.Sleep(150 * time.Second)
		r.mustStop()
		text := log.String()
		if n := strings.Count(text, `"behind":17,"oldest":"1m30s"`); n != 3 || looks != 2 {
			t.Errorf("%d lines tell, after %d looks:\n%s", n, looks, text)
		}
		if !strings.Contains(text, `"lease":"30s"`) {
			t.Error("a lease is not in words:", text)
		}
	})
}

// lockedText is written by a relay while the test reads it.
type lockedText struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *lockedText) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *lockedText) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

type sampledStore struct {
	*outboxtest.Store
	sample func() (*outbox.Sample, error)
}

func (s *sampledStore) Sample(context.Context, outbox.ID) (*outbox.Sample, error) { return s.sample() }

// TestSampling: hooks get what is seen at each interval, nothing after a failure, and an end.
func TestSampling(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var seen []string
		answers := []func() (*outbox.Sample, error){
			func() (*outbox.Sample, error) { return &outbox.Sample{Relays: 1}, nil },
			func() (*outbox.Sample, error) { return nil, errors.New("no database") },
			func() (*outbox.Sample, error) { return nil, nil },
			func() (*outbox.Sample, error) { return nil, nil },
			func() (*outbox.Sample, error) { return &outbox.Sample{Relays: 2}, nil },
		}
		looks := 0
		store := &sampledStore{outboxtest.NewStore(), func() (*outbox.Sample, error) {
			looks++
			return answers[min(looks, len(answers))-1]()
		}}
		begin := time.Now()
		r := start(t, store, outbox.To(&outboxtest.Recorder{}), outbox.Config{SampleInterval: 10 * time.Second,
			Hooks: outbox.Hooks{Sampled: func(_ context.Context, s *outbox.Sample) {
				line := fmt.Sprintf("%.0f nothing", time.Since(begin).Seconds())
				if s != nil {
					line = fmt.Sprintf("%.0f relays %d, next in %s", s.At.Sub(begin).Seconds(), s.Relays, s.Interval)
				}
				seen = append(seen, line)
			}}})
		time.Sleep(45 * time.Second)
		r.mustStop()
		want := []string{"0 relays 1, next in 10s", "20 nothing", "40 relays 2, next in 10s", "45 nothing"}
		if !slices.Equal(seen, want) {
			t.Errorf("%q, want %q", seen, want)
		}
	})
}
