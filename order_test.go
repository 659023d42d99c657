package outbox_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/outboxrelay/outbox"
	"github.com/outboxrelay/outbox/outboxtest"
)

// sent records the messages that a sink of either kind was given. Those with the payload 0 fail for good.
type sent struct {
	mu  sync.Mutex
	all []string
}

func (s *sent) Deliver(_ context.Context, d *outbox.Delivery) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = append(s.all, d.Key+string(d.Payload))
	if string(d.Payload) == "0" {
		return outbox.Permanent(errDown)
	}
	return nil
}

func (s *sent) count(label string) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, other := range s.all {
		if other == label {
			n++
		}
	}
	return n
}

// bothKinds runs a test with a sink that takes single messages and one that takes batches.
func bothKinds(t *testing.T, test func(t *testing.T, s *sent, sink outbox.Sink)) {
	t.Run("single", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) { s := &sent{}; test(t, s, s) })
	})
	t.Run("batch", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := &sent{}
			test(t, s, batchFunc(func(ctx context.Context, ds []*outbox.Delivery, report func(int, error)) error {
				each(ds, report, func(d *outbox.Delivery) error { return s.Deliver(ctx, d) })
				return nil
			}))
		})
	})
}

// TestParkedKey: behind a dead head nothing of its key is sent, by this relay or the next one, and nothing of it stays in
// their hands; other keys go on.
func TestParkedKey(t *testing.T) {
	bothKinds(t, func(t *testing.T, s *sent, sink outbox.Sink) {
		store := outboxtest.NewStore()
		publish(t, store, messages(4, "a", "k")...)
		for range 2 {
			publish(t, store, message("a", "l", "1"), message("a", "k", "9"))
			r := start(t, store, outbox.To(sink), outbox.Config{Order: outbox.OrderPark, PollInterval: time.Hour})
			time.Sleep(time.Hour)
			r.mustStop()
		}
		if s.count("k0") != 1 || s.count("l1") != 2 || len(s.all) != 3 {
			t.Errorf("sent %q", s.all)
		}
		if c := store.Counts(); c.Ready != 5 || c.Dead != 1 || c.Claimed != 0 || store.Claims() != 0 {
			t.Errorf("%+v", c)
		}
		if dead := store.Dead(); len(dead) != 1 || !dead[0].Holds || dead[0].Attempts != 1 {
			t.Errorf("dead %+v", dead)
		}
	})
}

// TestBlockedKey: a head that fails is sent again, beyond the limit of its attempts and at the longest wait, and nothing
// of its key with it, until its life is over.
func TestBlockedKey(t *testing.T) {
	bothKinds(t, func(t *testing.T, s *sent, sink outbox.Sink) {
		store := outboxtest.NewStore()
		head := message("a", "k", "0")
		head.TTL, head.MaxAttempts = 10*time.Hour+time.Minute, 2
		publish(t, store, head)
		publish(t, store, messages(4, "a", "k")[1:]...)
		publish(t, store, message("a", "l", "1"))
		r := start(t, store, outbox.To(sink), outbox.Config{Order: outbox.OrderBlock, PollInterval: time.Hour,
			Retry: outbox.RetryPolicy{Base: time.Minute, Max: time.Hour, DisableJitter: true}})
		time.Sleep(10*time.Hour + 30*time.Second)
		if s.count("k0") != 11 || s.count("l1") != 1 || s.count("k1") != 0 {
			t.Errorf("sent %q", s.all)
		}
		if c := store.Counts(); c.Waiting != 1 || c.Ready != 3 || c.Claimed != 0 {
			t.Errorf("%+v while it is retried", c)
		}
		time.Sleep(time.Hour)
		r.mustStop()
		if got := fmt.Sprint(s.all[len(s.all)-3:]); got != "[k1 k2 k3]" || s.count("k0") != 11 {
			t.Errorf("after it has expired: sent %q", s.all)
		}
		if c := store.Counts(); c.Expired != 1 || c.Delivered != 4 || c.Dead != 0 {
			t.Errorf("%+v", c)
		}
	})
}

// TestBlockAsksLonger: a wait that is asked for at the last attempt is kept if it is longer than the longest.
func TestBlockAsksLonger(t *testing.T) {
	for asked, want := range map[time.Duration]time.Duration{time.Minute: time.Hour, 5 * time.Hour: 5 * time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			store, sink := outboxtest.NewStore(), &outboxtest.Recorder{}
			publish(t, store, message("a", "k", "1"))
			sink.Plan(outbox.RetryAfter(asked, errDown))
			r := start(t, store, outbox.To(sink), outbox.Config{Order: outbox.OrderBlock, MaxAttempts: 1, PollInterval: time.Hour,
				Retry: outbox.RetryPolicy{Base: time.Minute, Max: time.Hour, DisableJitter: true}})
			time.Sleep(want - time.Second)
			early := len(sink.Deliveries())
			time.Sleep(2 * time.Second)
			r.mustStop()
			if n := len(sink.Deliveries()); early != 1 || n != 2 {
				t.Errorf("asked for %v: sent %d times before %v and %d times after", asked, early, want, n)
			}
		})
	}
}

// TestHeadsTopicDecides: the order of the head's topic is what counts, not that of the messages behind it.
func TestHeadsTopicDecides(t *testing.T) {
	for name, tc := range map[string]struct {
		head, behind outbox.Order
		delivered    int
	}{
		"parked head":          {outbox.OrderPark, outbox.OrderSkip, 0},
		"blocked head":         {outbox.OrderBlock, outbox.OrderPark, 0},
		"head that is skipped": {outbox.OrderSkip, outbox.OrderPark, 1},
		"head without order":   {outbox.OrderNone, outbox.OrderPark, 1},
		"no order behind":      {outbox.OrderPark, outbox.OrderNone, 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store, s := outboxtest.NewStore(), &sent{}
				publish(t, store, message("head", "k", "0"), message("behind", "k", "1"))
				r := start(t, store, outbox.To(s), outbox.Config{Rules: []outbox.Rule{
					{Topics: []string{"head"}, Order: tc.head}, {Topics: []string{"behind"}, Order: tc.behind}}})
				time.Sleep(time.Second)
				r.mustStop()
				if c := store.Counts(); c.Delivered != tc.delivered {
					t.Errorf("%+v, sent %q", c, s.all)
				}
			})
		})
	}
}
