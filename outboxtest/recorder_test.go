package outboxtest

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/outboxrelay/outbox"
)

func TestRecorderAnswersAsPlannedAndRemembersEverything(t *testing.T) {
	var r Recorder
	bad, worse := errors.New("bad"), errors.New("worse")
	r.Plan(bad, nil)
	r.Answer(func(context.Context, *outbox.Delivery) error { return worse })
	for i, want := range []error{bad, nil, worse, worse} {
		if got := Deliver(t, &r, outbox.Message{Topic: "a"}); !errors.Is(got, want) {
			t.Errorf("delivery %d returned %v, want %v", i, got, want)
		}
	}
	if n := len(r.Deliveries()); n != 4 {
		t.Errorf("recorded %d deliveries", n)
	}
}

func TestRecorderWaitReturnsWithTheNthDelivery(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r Recorder
		done := make(chan error)
		go func() { done <- r.Wait(t.Context(), 2) }()
		for range 2 {
			synctest.Wait()
			select {
			case err := <-done:
				t.Fatalf("returned %v too early", err)
			default:
			}
			if err := Deliver(t, &r, outbox.Message{Topic: "a"}); err != nil {
				t.Fatal(err)
			}
		}
		if err := <-done; err != nil {
			t.Error(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := r.Wait(ctx, 3); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Wait returned %v", err)
		}
	})
}

func TestDeliverCompletesTheMessage(t *testing.T) {
	var r Recorder
	m := outbox.Message{
		Topic: "orders.created", Key: "k", Payload: []byte("{}"), ContentType: "application/json", TTL: time.Minute,
	}
	if err := Deliver(t, &r, m); err != nil {
		t.Fatal(err)
	}
	d := r.Deliveries()[0]
	switch left := time.Until(d.Deadline); {
	case d.ID.IsZero() || d.Attempt != 1 || d.Seq != 1 || d.PublishedAt.IsZero():
		t.Errorf("delivered %+v", d)
	case d.Headers["content-type"] != "application/json" || d.ContentType != "application/json":
		t.Errorf("headers %v, content type %q", d.Headers, d.ContentType)
	case left <= 0 || left > time.Minute:
		t.Errorf("deadline in %v", left)
	}
}
