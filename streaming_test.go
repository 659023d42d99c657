package outbox_test

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/outboxrelay/outbox"
	"github.com/outboxrelay/outbox/outboxtest"
)

// streamedStore is an outbox that streams as is planned.
type streamedStore struct {
	*outboxtest.Store
	now atomic.Pointer[outbox.Streaming]
}

func (s *streamedStore) Streaming() outbox.Streaming { return *s.now.Load() }

// TestStreamingIsTold: hooks and Health tell what the store's stream does, and hooks its end.
func TestStreamingIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &streamedStore{Store: outboxtest.NewStore()}
		var mu sync.Mutex
		var told []outbox.Streaming
		set := func(s outbox.Streaming) { store.now.Store(&s) }
		hook := outbox.Hooks{Streaming: func(_ context.Context, s outbox.Streaming) {
			mu.Lock()
			defer mu.Unlock()
			if told = append(told, s); len(told) > 1 && told[len(told)-2] == s {
				told = told[:len(told)-1]
			}
		}}
		other := 0
		set(outbox.Streaming{Problem: "no slot"})
		r := start(t, store, sinkOf(func(context.Context, *outbox.Delivery) error { return nil }), outbox.Config{
			Hooks: outbox.JoinHooks(hook, outbox.Hooks{Streaming: func(context.Context, outbox.Streaming) { other++ }})})
		time.Sleep(5 * time.Second)
		on := outbox.Streaming{On: true, Lag: time.Second, Buffered: 3}
		set(on)
		time.Sleep(5 * time.Second)
		if h := r.Health(); h.Streaming == nil || *h.Streaming != on {
			t.Errorf("health tells %+v", h.Streaming)
		}
		r.mustStop()
		if want := []outbox.Streaming{{Problem: "no slot"}, on, {}}; !slices.Equal(told, want) {
			t.Errorf("told %+v, want %+v", told, want)
		}
		if other < 10 || other > 13 {
			t.Errorf("in ten seconds the second hook was called %d times", other)
		}
	})
}

// TestNoStreamingIsTold: of a store without streams there is nothing to tell.
func TestNoStreamingIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, outboxtest.NewStore(), sinkOf(func(context.Context, *outbox.Delivery) error { return nil }), outbox.Config{
			Hooks: outbox.Hooks{Streaming: func(_ context.Context, s outbox.Streaming) { t.Errorf("told %+v", s) }}})
		time.Sleep(5 * time.Second)
		if h := r.Health(); h.Streaming != nil {
			t.Errorf("health tells %+v", h.Streaming)
		}
		r.mustStop()
	})
}
