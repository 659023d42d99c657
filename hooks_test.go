package outbox_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/outboxrelay/outbox"
	"github.com/outboxrelay/outbox/outboxtest"
)

type hookKey struct{ name string }

// diary notes what hooks are called with.
type diary struct {
	mu    sync.Mutex
	lines []string
}

func (d *diary) note(format string, args ...any) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lines = append(d.lines, fmt.Sprintf(format, args...))
}

func (d *diary) want(t *testing.T, want ...string) {
	t.Helper()
	d.mu.Lock()
	defer d.mu.Unlock()
	if !slices.Equal(d.lines, want) {
		t.Errorf("hooks were called:\n%s\nwant:\n%s", strings.Join(d.lines, "\n"), strings.Join(want, "\n"))
	}
	d.lines = nil
}

// hooks note under a name, and put it into contexts.
func (d *diary) hooks(name string) outbox.Hooks {
	in := func(ctx context.Context, call string) context.Context {
		return context.WithValue(ctx, hookKey{name}, call)
	}
	return outbox.Hooks{
		PublishStart: func(ctx context.Context, ms []outbox.Message) context.Context {
			d.note("%s publish start %d", name, len(ms))
			return in(ctx, "publish")
		},
		PublishEnd: func(ctx context.Context, rs []outbox.Receipt, err error) {
			d.note("%s publish end %d %v %v", name, len(rs), err, ctx.Value(hookKey{name}))
		},
		DeliverStart: func(ctx context.Context, dl *outbox.Delivery) context.Context {
			d.note("%s deliver start %s", name, dl.Payload)
			return in(ctx, "deliver")
		},
		DeliverEnd: func(ctx context.Context, dl *outbox.Delivery, r outbox.Result) {
			d.note("%s deliver end %s %s %s %v %v %v", name, dl.Payload, r.Destination, r.Kind, r.Class, r.Err, ctx.Value(hookKey{name}))
		},
		BatchStart: func(ctx context.Context, destination string, ds []*outbox.Delivery) context.Context {
			d.note("%s batch start %s %d", name, destination, len(ds))
			return in(ctx, "batch")
		},
		BatchEnd: func(ctx context.Context, err error) {
			d.note("%s batch end %v %v", name, err, ctx.Value(hookKey{name}))
		},
		RelayStart: func(_ context.Context, lanes []outbox.LaneInfo) {
			d.note("%s relay start %s", name, lanes[0].Destination)
		},
	}
}

// TestHooksAroundDelivery: starts decorate the handler's context, ends tell the verdict, several hooks are nested.
func TestHooksAroundDelivery(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, d := outboxtest.NewStore(), &diary{}
		publish(t, store, message("a", "k", "1"), message("a", "k", "2"))
		attempts := 0
		r := start(t, store, sinkOf(func(ctx context.Context, dl *outbox.Delivery) error {
			if ctx.Value(hookKey{"outer"}) != "deliver" || ctx.Value(hookKey{"inner"}) != "deliver" {
				t.Error("the handler's context is not that of the hooks")
			}
			if limit, ok := ctx.Deadline(); !ok || time.Until(limit) != time.Minute {
				t.Errorf("limit %v", limit)
			}
			if attempts++; attempts == 1 {
				return errors.New("no")
			}
			return nil
		}), outbox.Config{Hooks: outbox.JoinHooks(d.hooks("outer"), outbox.Hooks{}, d.hooks("inner"))})
		time.Sleep(5 * time.Second)
		r.mustStop()
		d.want(t, "outer relay start default", "inner relay start default",
			"outer deliver start 1", "inner deliver start 1",
			"inner deliver end 1 default retried error no deliver", "outer deliver end 1 default retried error no deliver",
			"outer deliver start 1", "inner deliver start 1",
			"inner deliver end 1 default delivered  <nil> deliver", "outer deliver end 1 default delivered  <nil> deliver",
			"outer deliver start 2", "inner deliver start 2",
			"inner deliver end 2 default delivered  <nil> deliver", "outer deliver end 2 default delivered  <nil> deliver")
	})
}

// TestHooksAroundBatch: the call has hooks of its own, and each message still its pair.
func TestHooksAroundBatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, d := outboxtest.NewStore(), &diary{}
		publish(t, store, message("a", "", "1"), message("a", "", "2"))
		sink := batchFunc(func(ctx context.Context, ds []*outbox.Delivery, report func(int, error)) error {
			if ctx.Value(hookKey{"h"}) != "batch" {
				t.Error("the batch's context is not that of the hooks")
			}
			report(0, nil)
			return errors.New("the rest failed")
		})
		r := start(t, store, outbox.To(sink), outbox.Config{MaxAttempts: 1, Hooks: d.hooks("h")})
		time.Sleep(time.Second)
		r.mustStop()
		d.want(t, "h relay start default", "h batch start default 2", "h deliver start 1", "h deliver start 2",
			"h deliver end 1 default delivered  <nil> deliver", "h deliver end 2 default died error the rest failed deliver",
			"h batch end the rest failed batch")
	})
}

// TestHooksOfGoexit: an attempt whose handler ends its goroutine has its end told too.
func TestHooksOfGoexit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, ends := outboxtest.NewStore(), 0
		publish(t, store, message("a", "", "1"))
		r := start(t, store, sinkOf(func(context.Context, *outbox.Delivery) error { runtimeGoexit(); return nil }), outbox.Config{MaxAttempts: 1,
			Hooks: outbox.Hooks{DeliverEnd: func(_ context.Context, _ *outbox.Delivery, res outbox.Result) {
				if ends++; res.Kind != outbox.Died || res.Class != outbox.ClassPanic {
					t.Errorf("result %+v", res)
				}
			}}})
		time.Sleep(time.Second)
		r.mustStop()
		if ends != 1 {
			t.Errorf("%d ends of one attempt", ends)
		}
	})
}

// TestBrokenHooksChangeNothing: a success stays a success, whatever the hooks do.
func TestBrokenHooksChangeNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		broken := outbox.Hooks{
			PublishStart: func(_ context.Context, ms []outbox.Message) context.Context { ms[0].Topic = ""; panic("hook") },
			PublishEnd:   func(context.Context, []outbox.Receipt, error) { panic("hook") },
			DeliverStart: func(context.Context, *outbox.Delivery) context.Context { return nil },
			DeliverEnd:   func(context.Context, *outbox.Delivery, outbox.Result) { panic("hook") },
			RelayStart:   func(context.Context, []outbox.LaneInfo) { panic("hook") },
			Event:        func(context.Context, outbox.Event) { panic("hook") },
		}
		store := outboxtest.NewStore()
		receipts, err := broken.ObservePublish(t.Context(), messages(3, "a", "k"), func(ctx context.Context, ms []outbox.Message) ([]outbox.Receipt, error) {
			return store.Publish(ctx, ms...)
		})
		if err != nil || len(receipts) != 3 {
			t.Fatal(receipts, err)
		}
		sink := &outboxtest.Recorder{}
		r := start(t, store, outbox.To(sink), outbox.Config{Hooks: broken})
		time.Sleep(time.Second)
		r.mustStop()
		if got := store.Counts(); got.Delivered != 3 || got.Dead != 0 || len(sink.Deliveries()) != 3 {
			t.Errorf("counts %+v after %d deliveries", got, len(sink.Deliveries()))
		}
	})
}

// TestObservePublishLeavesMessages: hooks change a copy.
func TestObservePublishLeavesMessages(t *testing.T) {
	h := outbox.Hooks{PublishStart: func(ctx context.Context, ms []outbox.Message) context.Context {
		ms[0].Headers = map[string]string{"traceparent": "00"}
		return ctx
	}}
	given := []outbox.Message{message("a", "", "1")}
	_, err := h.ObservePublish(t.Context(), given, func(_ context.Context, ms []outbox.Message) ([]outbox.Receipt, error) {
		if ms[0].Headers["traceparent"] != "00" {
			t.Error("the hook's header is lost")
		}
		return nil, nil
	})
	if err != nil || given[0].Headers != nil {
		t.Errorf("error %v, the caller's message has headers %v", err, given[0].Headers)
	}
}

// TestHooksTellFaults: what is wrong with a destination, and that nothing is.
func TestHooksTellFaults(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, evs := outboxtest.NewStore(), &events{}
		publish(t, store, message("a", "", "1"))
		tries := 0
		r := start(t, store, sinkOf(func(context.Context, *outbox.Delivery) error {
			if tries++; tries == 1 {
				return outbox.Unavailable(errDown)
			}
			return nil
		}), outbox.Config{Hooks: evs.hooks()})
		time.Sleep(time.Minute)
		r.mustStop()
		var states []string
		for _, e := range evs.all {
			if e.Kind == outbox.EventFault {
				states = append(states, e.Destination+" "+e.Fault.State())
			}
		}
		if !slices.Equal(states, []string{"default unavailable", "default available"}) {
			t.Error(states)
		}
	})
}
