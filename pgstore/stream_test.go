package pgstore

import (
	"context"
	"testing"
	"time"

	"github.com/outboxrelay/outbox"
)

// newFollower makes a relay on a store with the WAL engine whose one lane follows the stream.
func newFollower(t testing.TB, url string, cfg *Config) *testRelay {
	t.Helper()
	if cfg == nil {
		cfg = &Config{Notify: NotifyOff}
	}
	cfg.Engine = EngineWAL
	r := newTestRelay(t, newStore(t, url, cfg), ">")
	runStream(t, r.store)
	r.follow(t)
	return r
}

// runStream runs what a Relay runs for a store, until the test ends.
func runStream(t testing.TB, s *Store) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		s.Listen(ctx)
	}()
	t.Cleanup(func() { cancel(); <-ended })
}

func (r *testRelay) lane() *lane { return r.store.relay(r.info.ID).lane("lane") }

func (r *testRelay) feedState() feedState {
	l := r.lane()
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.feed.state
}

// follow claims until the lane follows; there must be nothing to claim.
func (r *testRelay) follow(t testing.TB) {
	t.Helper()
	await(t, "the lane follows the stream", func() bool {
		if ds := r.claim(t, 100); ds != nil {
			t.Fatalf("claimed %s", payloads(ds))
		}
		return r.feedState() == feedFollowing
	})
}

// claimAll claims until there are n messages.
func (r *testRelay) claimAll(t testing.TB, n int) (ds []*outbox.Delivery) {
	t.Helper()
	await(t, "the messages are claimed", func() bool {
		ds = append(ds, r.claim(t, 100)...)
		return len(ds) >= n
	})
	return ds
}

func await(t testing.TB, what string, done func() bool) {
	t.Helper()
	const patience = 20 * time.Second
	for begin := time.Now(); !done(); time.Sleep(2 * time.Millisecond) {
		if time.Since(begin) > patience {
			t.Fatalf("after %v it is not so that %s", patience, what)
		}
	}
}

func TestStreamBringsMessages(t *testing.T) {
	url := migratedDatabase(t)
	conn := connect(t, url)
	r := newFollower(t, url, nil)
	insert(t, conn, "a", 5, 0)
	if ds := r.claimAll(t, 5); payloads(ds) != "1 2 3 4 5 " {
		t.Errorf("claimed %s", payloads(ds))
	} else {
		r.settle(t, outbox.Delivered, ds...)
	}
	if n := value[int](t, conn, "select count(*) from outbox.message"); n != 0 {
		t.Errorf("%d messages are left", n)
	}
}
