package outbox_test

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/outboxrelay/outbox"
	"github.com/outboxrelay/outbox/outboxtest"
)

// TestFaultIsTold: what the relay finds wrong with a destination is with the store as soon as it is found, long before
// the next heartbeat is due, and so is its end, though no message has come since.
func TestFaultIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, log := outboxtest.NewStore(), &bytes.Buffer{}
		var trouble atomic.Pointer[error]
		set := func(err error) { trouble.Store(&err) }
		set(nil)
		p := &place{
			deliver: func(*outbox.Delivery) error { return outbox.Unavailable(*trouble.Load()) },
			ping:    func(context.Context) error { return *trouble.Load() },
		}
		r := start(t, store, outbox.To(pinger{p}), outbox.Config{MaxAttempts: 1, Lease: 10 * time.Minute, Logger: textLog(log)})
		want := func(state, reason string) {
			t.Helper()
			w, err := store.Why(t.Context(), outbox.WhyQuery{ID: outbox.NewID()})
			if err != nil || len(w.Destinations) != 1 {
				t.Fatalf("%+v, %v", w, err)
			}
			d := w.Destinations[0]
			if d.Fault.State() != state || d.Fault != nil && (d.Faulty != 1 || !strings.Contains(d.Fault.Reason, reason)) {
				t.Errorf("the destination is %s: %+v", d.Fault.State(), d.Fault)
			}
		}
		time.Sleep(time.Second)
		want(outbox.StateAvailable, "")
		set(errDown)
		publish(t, store, messages(1, "a", "")...)
		time.Sleep(2 * time.Second)
		want(outbox.StateUnavailable, errDown.Error())
		set(outbox.Misconfigured(errors.New("no exchange; make one")))
		time.Sleep(31 * time.Second)
		want(outbox.StateMisconfigured, "make one")
		set(nil)
		time.Sleep(31 * time.Second)
		want(outbox.StateAvailable, "")
		r.mustStop()
		for _, line := range []string{"destination is unavailable", "destination is misconfigured", "destination is available again"} {
			if strings.Count(log.String(), line) != 1 {
				t.Errorf("not one line %q:\n%s", line, log)
			}
		}
	})
}

// TestFaultOfOneHandler: of a Mux the handler is named, and the others' deliveries do not end its fault.
func TestFaultOfOneHandler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, mux := outboxtest.NewStore(), outbox.NewMux()
		mux.Handle("down", func(context.Context, *outbox.Delivery) error {
			return outbox.Unavailable(errors.New(strings.Repeat("é", 400)))
		})
		mux.Handle("up", func(context.Context, *outbox.Delivery) error { return nil })
		publish(t, store, append(messages(1, "down", ""), messages(3, "up", "")...)...)
		r := start(t, store, outbox.To(mux), outbox.Config{})
		time.Sleep(time.Second)
		publish(t, store, messages(3, "up", "")...)
		time.Sleep(time.Second)
		w, err := store.Why(t.Context(), outbox.WhyQuery{ID: outbox.NewID()})
		if err != nil || len(w.Destinations) != 1 || w.Destinations[0].Fault == nil {
			t.Fatalf("%+v, %v", w, err)
		}
		reason := w.Destinations[0].Fault.Reason
		if !strings.HasPrefix(reason, "handler of down: éé") || !strings.HasSuffix(reason, "é…") || len(reason) > 500 {
			t.Errorf("%d bytes: %s", len(reason), reason)
		}
		r.mustStop()
	})
}
