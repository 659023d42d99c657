package e2e

import (
	"context"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/outboxrelay/outbox"
	"github.com/outboxrelay/outbox/pgstore"
)

// slowSink never answers for one topic, and for no message while it hangs.
type slowSink struct {
	hangs           atomic.Bool
	answered, tries atomic.Int64
}

func (s *slowSink) Deliver(ctx context.Context, d *outbox.Delivery) error {
	if d.Topic == "slow" {
		s.tries.Add(1)
	}
	if d.Topic == "slow" || s.hangs.Load() {
		<-ctx.Done()
		return ctx.Err()
	}
	s.answered.Add(1)
	return nil
}

// TestMessageThatTimesOut: the destination hangs, so that its breaker closes it, and comes back; one message goes on
// to exceed its time limit, whether it is the probe or not. The destination is available again, that message ends
// dead after its own attempts, and the others are delivered.
func TestMessageThatTimesOut(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	store, err := pgstore.Open(t.Context(), db.url, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	publish := func(topics ...string) {
		t.Helper()
		var ms []outbox.Message
		for _, topic := range topics {
			ms = append(ms, outbox.Message{Topic: topic})
		}
		tx, err := db.pool.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := store.Publish(t.Context(), tx, ms...); err != nil {
			t.Fatal(err)
		}
		if err := tx.Commit(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	log := &program{}
	sink := &slowSink{}
	sink.hangs.Store(true)
	relay, err := outbox.NewRelay(store, []outbox.Route{{Name: "lane", Topics: []string{">"}, Sink: sink, Slots: 10}}, &outbox.Config{
		HandlerTimeout: 200 * time.Millisecond, MaxAttempts: 3, Logger: slog.New(slog.NewJSONHandler(log, nil)),
		Retry: outbox.RetryPolicy{Base: 20 * time.Millisecond, Max: 100 * time.Millisecond},
	})
	if err != nil {
		t.Fatal(err)
	}
	publish("slow", "quick", "quick", "quick", "quick", "quick")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- relay.Run(ctx) }()
	until(t, time.Minute, "the destination is closed", func() bool { return log.says(t, "destination is unavailable", "lane") == 1 })
	if n := db.count(t.Context(), dead); n != 0 {
		t.Errorf("%d messages are dead of the destination's hanging", n)
	}
	sink.hangs.Store(false)
	until(t, time.Minute, "the destination is available again", func() bool { return log.says(t, "destination is available again", "lane") > 0 })
	publish(strings.Fields(strings.Repeat("quick ", 100))...)
	until(t, time.Minute, "the others have arrived", func() bool { return sink.answered.Load() == 105 })
	db.drained(t, 3*time.Minute)
	if n := db.count(t.Context(), "select count(*) from outbox.dead where topic = 'slow' and attempts = 3 and error_class = 'timeout'"); n != 1 {
		t.Errorf("the message is not dead of its time limit: %s", log.text())
	}
	if n := db.count(t.Context(), dead); n != 1 {
		t.Errorf("%d messages are dead", n)
	}
	t.Logf("%d deliveries of the message", sink.tries.Load())
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
