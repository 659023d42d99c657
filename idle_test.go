package outbox_test

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/outboxrelay/outbox"
	"github.com/outboxrelay/outbox/outboxtest"
)

// housekeepingStore counts what a relay asks for when nothing happens.
type housekeepingStore struct {
	*outboxtest.Store
	claims, maintains, listening atomic.Int64
	more                         bool
	limit                        int64 // an empty claim of fewer bytes says that what is there does not fit
}

func (s *housekeepingStore) Claim(ctx context.Context, q outbox.ClaimQuery) (outbox.Batch, error) {
	s.claims.Add(1)
	b, err := s.Store.Claim(ctx, q)
	b.Starved = b.Starved || len(b.Claims) == 0 && q.Bytes < s.limit
	return b, err
}

func (s *housekeepingStore) Maintain(context.Context, outbox.MaintainQuery) (outbox.MaintainReport, error) {
	s.maintains.Add(1)
	return outbox.MaintainReport{More: s.more}, nil
}

func (s *housekeepingStore) Listen(ctx context.Context) {
	s.listening.Add(1)
	<-ctx.Done()
	s.listening.Add(-1)
}

// TestIdle: an idle relay claims once per poll interval, keeps house once a minute, says so once a minute, and
// runs the store's listener as long as it runs itself.
func TestIdle(t *testing.T) {
	for name, more := range map[string]bool{"nothing to keep": false, "endless housekeeping": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { testIdle(t, more) })
		})
	}
}

func testIdle(t *testing.T, more bool) {
	store, log := &housekeepingStore{Store: outboxtest.NewStore(), more: more}, &bytes.Buffer{}
	r := start(t, store, outbox.To(&outboxtest.Recorder{}), outbox.Config{Logger: slog.New(slog.NewTextHandler(log, nil))})
	time.Sleep(10*time.Minute + time.Second)
	if n := store.listening.Load(); n != 1 {
		t.Errorf("%d listeners", n)
	}
	r.mustStop()
	if n := store.listening.Load(); n != 0 {
		t.Errorf("%d listeners after the stop", n)
	}
	if n := store.claims.Load(); n < 400 || n > 700 {
		t.Errorf("%d claims in ten idle minutes", n)
	}
	least, most := int64(10), int64(12)
	if more {
		least, most = 100, 120
	}
	if n := store.maintains.Load(); n < least || n > most {
		t.Errorf("%d portions of housekeeping", n)
	}
	if n := strings.Count(log.String(), "relay summary"); n != 10 || !strings.Contains(log.String(), "relay stopped") {
		t.Errorf("%d summaries:\n%s", n, log)
	}
}

// TestBytesBound: the payloads held stay within the route's limit, a larger message is delivered alone, and claims
// that cannot take anything are not repeated at once.
func TestBytesBound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const limit = 1000
		store := &housekeepingStore{Store: outboxtest.NewStore(), limit: limit}
		for range 20 {
			publish(t, store.Store, message("a", "", strings.Repeat("x", 300)), message("a", "", strings.Repeat("y", 700)))
		}
		publish(t, store.Store, message("a", "", strings.Repeat("z", 5000)), message("a", "", "last"))
		var held atomic.Int64
		sink := outbox.SinkFunc(func(_ context.Context, d *outbox.Delivery) error {
			size := int64(len(d.Payload))
			if h := held.Add(size); h > limit && h != size {
				t.Errorf("%d bytes held", h)
			}
			time.Sleep(time.Second)
			held.Add(-size)
			return nil
		})
		r := start(t, store, []outbox.Route{{Name: "a", Topics: []string{"a"}, Sink: sink, BatchBytes: limit}}, outbox.Config{})
		time.Sleep(time.Minute)
		r.mustStop()
		if c := store.Counts(); c.Delivered != 42 {
			t.Errorf("%+v", c)
		}
		if n := store.claims.Load(); n > 1000 {
			t.Errorf("%d claims", n)
		}
	})
}

// TestIdleAfterSlowMessages: a relay whose slots were all busy from its first claim on, for longer than the time in
// which it polls quickly, and who then finds nothing, rests like any other.
func TestIdleAfterSlowMessages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &faultyStore{Store: outboxtest.NewStore()}
		var claims atomic.Int64
		store.claim = func(ctx context.Context, q outbox.ClaimQuery) (outbox.Batch, error) {
			if claims.Add(1) > 1000 {
				time.Sleep(time.Second) // the clock of the bubble stands still while somebody is always busy
			}
			b, err := store.Store.Claim(ctx, q)
			b.More = len(b.Claims) > 0 // another relay takes it
			return b, err
		}
		publish(t, store.Store, messages(2, "a", "")...)
		routes := sinkOf(func(context.Context, *outbox.Delivery) error {
			time.Sleep(3 * time.Second)
			return nil
		})
		routes[0].Slots = 1
		r := start(t, store, routes, outbox.Config{})
		time.Sleep(time.Minute)
		r.mustStop()
		if n := claims.Load(); n > 500 {
			t.Errorf("%d claims in a minute, for two messages", n)
		}
		if c := store.Counts(); c.Delivered != 2 {
			t.Errorf("%+v", c)
		}
	})
}
