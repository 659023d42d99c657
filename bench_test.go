package outbox_test

import (
	"context"
	"runtime"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/outboxrelay/outbox"
)

// endlessStore hands out n messages as fast as it is asked, so that what is measured is the relay alone.
type endlessStore struct {
	keys int

	mu      sync.Mutex
	left    int
	seq     int64
	settled int
	done    chan struct{}
}

func (s *endlessStore) Claim(_ context.Context, q outbox.ClaimQuery) (outbox.Batch, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := min(q.Limit, s.left)
	s.left -= n
	if n == 0 {
		return outbox.Batch{}, nil
	}
	backing := make([]outbox.Delivery, n)
	ds := make([]*outbox.Delivery, n)
	for i := range ds {
		s.seq++
		ds[i] = &backing[i]
		ds[i].Seq, ds[i].Topic, ds[i].Attempt = s.seq, "orders.created", 1
		if s.keys > 0 {
			ds[i].Key = "key-" + strconv.Itoa(int(s.seq)%s.keys)
		}
	}
	ref := outbox.ClaimRef{ID: s.seq, Relay: q.Relay}
	return outbox.Batch{More: true, Claims: []outbox.Claim{{Ref: ref, Deliveries: ds}}}, nil
}

func (s *endlessStore) Settle(_ context.Context, os []outbox.Outcome) ([]outbox.Settled, error) {
	answers := make([]outbox.Settled, len(os))
	for i := range answers {
		answers[i] = outbox.SettledNow
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.settled += len(os); s.left == 0 && int64(s.settled) == s.seq {
		close(s.done)
	}
	return answers, nil
}

func (s *endlessStore) Beat(context.Context, outbox.RelayInfo, []outbox.Token) (outbox.Orders, error) {
	return outbox.Orders{}, nil
}

func (s *endlessStore) Wait(ctx context.Context, _ uint64, until time.Time) (uint64, error) {
	timer := time.NewTimer(time.Until(until))
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
	return 0, ctx.Err()
}

func (s *endlessStore) Maintain(context.Context, outbox.MaintainQuery) (outbox.MaintainReport, error) {
	return outbox.MaintainReport{}, nil
}

// BenchmarkRelayNoop is what the relay itself costs per message.
func BenchmarkRelayNoop(b *testing.B) {
	for name, keys := range map[string]int{"no keys": 0, "1 key": 1, "10000 keys": 10_000} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			store := &endlessStore{keys: keys, left: b.N, done: make(chan struct{})}
			routes := outbox.To(outbox.SinkFunc(func(context.Context, *outbox.Delivery) error { return nil }))
			routes[0].Slots = 2000
			relay, err := outbox.NewRelay(store, routes, &outbox.Config{Logger: quiet()})
			if err != nil {
				b.Fatal(err)
			}
			ctx, cancel := context.WithCancel(b.Context())
			result := make(chan error, 1)
			go func() { result <- relay.Run(ctx) }()
			<-store.done
			cancel()
			if err := <-result; err != nil {
				b.Fatal(err)
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "msg/s")
		})
	}
}

// TestHooksCostNothingWhenAbsent: a relay without hooks allocates one attempt for each message, and nothing else.
func TestHooksCostNothingWhenAbsent(t *testing.T) {
	// The test's store and the batches add some, more where others keep the processors busy and batches are small; one more for each
	// message would be 2, however often it is tried.
	const most, tries = 1.6, 10
	var per float64
	for range tries {
		if per = allocationsPerMessage(t); per <= most {
			return
		}
	}
	t.Errorf("%.2f allocations for each message", per)
}

func allocationsPerMessage(t *testing.T) float64 {
	t.Helper()
	const messages = 20_000
	store := &endlessStore{left: messages, done: make(chan struct{})}
	routes := sinkOf(func(context.Context, *outbox.Delivery) error { return nil })
	routes[0].Slots = 2000
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	r := start(t, store, routes, outbox.Config{})
	<-store.done
	r.mustStop()
	runtime.ReadMemStats(&after)
	return float64(after.Mallocs-before.Mallocs) / messages
}
