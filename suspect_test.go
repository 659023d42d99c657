package outbox_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/outboxrelay/outbox"
	"github.com/outboxrelay/outbox/outboxtest"
)

// dieWith lets a relay die with what it can claim, so many times.
func dieWith(t *testing.T, store *outboxtest.Store, times int) {
	t.Helper()
	for range times {
		everything := outbox.TopicSet{{Pattern: ">", In: true}}
		info := outbox.RelayInfo{ID: outbox.NewID(), Lease: time.Second, Lanes: []outbox.LaneInfo{{Destination: "default", Topics: everything}}}
		if _, err := store.Beat(t.Context(), info, nil); err != nil {
			t.Fatal(err)
		}
		q := outbox.ClaimQuery{Relay: info.ID, Destination: "default", Token: outbox.NewID(), Limit: 100, Bytes: 1 << 20}
		if _, err := store.Claim(t.Context(), q); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Second)
	}
}

// TestCrashed: a message whose relay died while it was delivered alone has failed, and is not delivered for that. Its
// next attempt is its own, alone again.
func TestCrashed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, sink, log := outboxtest.NewStore(), &outboxtest.Recorder{}, &bytes.Buffer{}
		id := publish(t, store, message("a", "k", "1"), message("a", "k", "2"))[0].ID
		dieWith(t, store, outbox.SuspectLapses+1)
		r := start(t, store, outbox.To(sink), outbox.Config{Logger: slog.New(slog.NewTextHandler(log, nil))})
		time.Sleep(time.Minute)
		r.mustStop()
		if got := payloads(sink.Deliveries()); got != "1 2 " || sink.Deliveries()[0].Attempt != 2 || sink.Deliveries()[1].Attempt != 1 {
			t.Errorf("delivered %q, the first at attempt %d", got, sink.Deliveries()[0].Attempt)
		}
		name := ` id=` + id.String() + ` topic=a destination=default`
		for _, want := range []string{
			`level=ERROR msg="message crashed its relay, will be retried alone"` + name + ` attempt=1 class=crash retry_in=`,
			`level=WARN msg="relays have died with this message, it is delivered alone"` + name + ` attempt=2 lapses=2`,
		} {
			if strings.Count(log.String(), want) != 1 {
				t.Errorf("no line, or several, with %s", want)
			}
		}
		if t.Failed() {
			t.Log(log.String())
		}
	})
}

// TestCrashedToDeath: crashes are attempts; the last one ends the message, and its key goes on.
func TestCrashedToDeath(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, sink, log := outboxtest.NewStore(), &outboxtest.Recorder{}, &bytes.Buffer{}
		publish(t, store, message("a", "k", "1"), message("a", "k", "2"))
		dieWith(t, store, outbox.SuspectLapses+1)
		r := start(t, store, outbox.To(sink), outbox.Config{MaxAttempts: 1, Logger: slog.New(slog.NewTextHandler(log, nil))})
		time.Sleep(time.Minute)
		r.mustStop()
		if got := payloads(sink.Deliveries()); got != "2 " {
			t.Errorf("delivered %q", got)
		}
		dead := store.Dead()
		if len(dead) != 1 || dead[0].Attempts != 1 || dead[0].Class != outbox.ClassCrash || string(dead[0].Message.Payload) != "1" {
			t.Errorf("dead: %+v", dead)
		}
		if !strings.Contains(log.String(), `level=ERROR msg="message is dead" id=`) || !strings.Contains(log.String(), "class=crash") {
			t.Errorf("the death is not told:\n%s", log)
		}
	})
}

// TestSuspectsFollowAtOnce: when a suspect is settled the next one is claimed, by whatever lane, without waiting for
// the next poll; and while one is in hand other messages are delivered.
func TestSuspectsFollowAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := outboxtest.NewStore()
		publish(t, store, message("a", "", "s"), message("b", "", "s"), message("a", "", "s"), message("b", "", "s"))
		dieWith(t, store, outbox.SuspectLapses)
		began := time.Now()
		delivered := make(chan string, 10)
		sink := outbox.SinkFunc(func(_ context.Context, d *outbox.Delivery) error {
			delivered <- fmt.Sprintf("%s after %v", d.Payload, time.Since(began).Truncate(time.Second))
			if string(d.Payload) != "fresh" {
				time.Sleep(10 * time.Minute)
			}
			return nil
		})
		r := start(t, store, []outbox.Route{
			{Name: "a", Topics: []string{"a"}, Sink: sink}, {Name: "b", Topics: []string{"b"}, Sink: sink},
		}, outbox.Config{PollInterval: time.Hour, HandlerTimeout: time.Hour})
		time.Sleep(5 * time.Minute)
		publish(t, store, message("a", "", "fresh"))
		time.Sleep(time.Hour)
		r.mustStop()
		close(delivered)
		var got []string
		for d := range delivered {
			got = append(got, d)
		}
		if want := []string{"s after 0s", "fresh after 5m0s", "s after 10m0s", "s after 20m0s", "s after 30m0s"}; !slices.Equal(got, want) {
			t.Errorf("delivered %q, want %q", got, want)
		}
	})
}

// TestSuspectNotInABatch: a batch sink gets a suspect alone.
func TestSuspectNotInABatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := outboxtest.NewStore()
		publish(t, store, message("a", "k", "suspect"))
		dieWith(t, store, outbox.SuspectLapses)
		publish(t, store, messages(20, "a", "")...)
		var sizes []int
		sink := batchFunc(func(_ context.Context, ds []*outbox.Delivery, report func(int, error)) error {
			for i, d := range ds {
				if string(d.Payload) == "suspect" {
					sizes = append(sizes, len(ds))
				}
				report(i, nil)
			}
			return nil
		})
		r := start(t, store, outbox.To(sink), outbox.Config{})
		time.Sleep(time.Minute)
		r.mustStop()
		if c := store.Counts(); c.Delivered != 21 || !slices.Equal(sizes, []int{1}) {
			t.Errorf("delivered %+v, the suspect in batches of %v", c, sizes)
		}
	})
}
