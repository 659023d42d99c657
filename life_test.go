package outbox_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/outboxrelay/outbox"
	"github.com/outboxrelay/outbox/outboxtest"
)

// TestRouteLives: a destination's lives are for messages without their own. TTL counts from publishing, time in a
// backoff included, and the key goes on when it is over; BrokerTTL is as long however long the message has waited.
func TestRouteLives(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := outboxtest.NewStore()
		var arrived sync.Map // payload to delivery
		seen := func(payload string) *outbox.Delivery {
			d, _ := arrived.Load(payload)
			found, _ := d.(*outbox.Delivery)
			return found
		}
		sink := outbox.SinkFunc(func(_ context.Context, d *outbox.Delivery) error {
			if arrived.Store(string(d.Payload), d); string(d.Payload) == "fails" {
				return outbox.RetryAfter(time.Hour, errors.New("not now"))
			}
			return nil
		})
		publish(t, store,
			outbox.Message{Topic: "a", Key: "k", Payload: []byte("fails")},
			outbox.Message{Topic: "a", Payload: []byte("late"), Delay: 11 * time.Minute},
			outbox.Message{Topic: "a", Payload: []byte("own"), Delay: 11 * time.Minute, TTL: time.Hour, BrokerTTL: time.Second},
			outbox.Message{Topic: "b", Payload: []byte("other"), Delay: 11 * time.Minute},
		)
		r := start(t, store, []outbox.Route{
			{Name: "mortal", Topics: []string{"a"}, Sink: sink, TTL: 10 * time.Minute, BrokerTTL: 5 * time.Minute},
			{Name: "immortal", Topics: []string{">"}, Sink: sink},
		}, outbox.Config{})
		time.Sleep(time.Minute)
		publish(t, store, outbox.Message{Topic: "a", Key: "k", Payload: []byte("next")})
		time.Sleep(8 * time.Minute)
		if seen("fails") == nil || seen("next") != nil {
			t.Errorf("the head %v, the one behind it %v", seen("fails"), seen("next"))
		}
		time.Sleep(time.Minute + 5*time.Second)
		if seen("next") == nil {
			t.Error("the key does not go on at the end of its head's life")
		}
		time.Sleep(time.Minute)
		r.mustStop()
		if seen("late") != nil || seen("own") == nil || seen("other") == nil {
			t.Errorf("late %v, own %v, other %v", seen("late"), seen("own"), seen("other"))
		}
		if c := store.Counts(); c.Delivered != 3 || c.Expired != 2 {
			t.Errorf("%+v", c)
		}
		for payload, want := range map[string]time.Duration{"next": 5 * time.Minute, "own": time.Second, "other": 0} {
			if d := seen(payload); d == nil || d.BrokerTTL != want {
				t.Errorf("%s: broker TTL %+v, want %v", payload, d, want)
			}
		}
	})
}

// TestRouteLivesRefused: routes of one name agree, and a life is no negative one.
func TestRouteLivesRefused(t *testing.T) {
	sink := outbox.SinkFunc(func(context.Context, *outbox.Delivery) error { return nil })
	route := func(topic string, ttl, broker time.Duration) outbox.Route {
		return outbox.Route{Name: "a", Topics: []string{topic}, Sink: sink, TTL: ttl, BrokerTTL: broker}
	}
	for field, routes := range map[string][]outbox.Route{
		"Routes[0].TTL":       {route("a", -1, 0)},
		"Routes[0].BrokerTTL": {route("a", 0, 1)},
		"Routes[1].TTL":       {route("a", time.Hour, 0), {Name: "a", Topics: []string{"b"}, TTL: time.Minute}},
		"Routes[1].BrokerTTL": {route("a", 0, time.Hour), {Name: "a", Topics: []string{"b"}, BrokerTTL: time.Minute}},
	} {
		_, err := outbox.NewRelay(outboxtest.NewStore(), routes, nil)
		var refused *outbox.FieldError
		if !errors.As(err, &refused) || refused.Field != field {
			t.Errorf("%s: %v", field, err)
		}
	}
}
