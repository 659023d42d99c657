package sinktest

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/outboxrelay/outbox"
)

// acknowledgedMeansStored: what has no error is there when the call returns.
func acknowledgedMeansStored(t TB, h Harness) {
	ds := messages(300)
	mustSend(t, h, ds...)
	mustHoldOnly(t, h, ds...)
	last := message(300, "by itself")
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := h.Sink().Deliver(ctx, last); err != nil {
		t.Fatal(err)
	}
	mustHoldOnly(t, h, append(ds, last)...)
}

// bytesSurvive: payloads are bytes, not text.
func bytesSurvive(t TB, h Harness) {
	all := make([]byte, 256)
	for i := range all {
		all[i] = byte(i)
	}
	var ds []*outbox.Delivery
	for i, payload := range []string{
		"", "\x00", "\r\n", "\r\n\r\nMSG a 1\r\n", "\xff\xfe", `{"a": 1}`, string(all), strings.Repeat(string(all), 256),
	} {
		ds = append(ds, message(i, payload))
	}
	mustSend(t, h, ds...)
	mustHoldOnly(t, h, ds...)
}

// headersSurvive: names as they were written, values byte by byte.
func headersSurvive(t TB, h Harness) {
	d := message(0, "x")
	d.SetHeaders(map[string]string{
		"content-type": "application/json; charset=utf-8", "traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
		"Mixed.Case_name-1": "a: b; c=\"d\"", "empty": "", "text": "Grüße, 世界 🙂", "long": strings.Repeat("v", 8000),
	})
	mustSend(t, h, d)
	for _, s := range stored(t, h)[d.ID.String()] {
		for name, want := range d.Headers {
			if got, ok := s.Headers[name]; !ok || got != want {
				t.Errorf("header %s is %.80q instead of %.80q", name, got, want)
			}
		}
	}
	mustHoldOnly(t, h, d)
}

// outboxHeaders: a consumer knows what it got without looking into the payload.
func outboxHeaders(t TB, h Harness) {
	keyed, plain := message(6, "keyed"), message(7, "plain")
	keyed.Key = "order 7/ä"
	keyed.Attempt = 4
	keyed.SetHeaders(map[string]string{"Outbox-Causation": "request-1,019545c8-4c35-7000-8000-000000000001"})
	mustSend(t, h, keyed, plain)
	held := stored(t, h)
	mustHoldOnly(t, h, keyed, plain)
	for _, d := range []*outbox.Delivery{keyed, plain} {
		for _, s := range held[d.ID.String()] {
			for name, want := range map[string]string{
				"Outbox-Topic": d.Topic, "Outbox-Key": d.Key, "Outbox-Seq": fmt.Sprint(d.Seq), "Outbox-Generation": "",
				"Outbox-Causation": d.Headers["Outbox-Causation"],
			} {
				if got := header(s, name); got != want {
					t.Errorf("%s is %q instead of %q", name, got, want)
				}
			}
			at, err := time.Parse(time.RFC3339, header(s, "Outbox-Published-At"))
			if err != nil || !at.Equal(d.PublishedAt) || !strings.HasSuffix(header(s, "Outbox-Published-At"), "Z") {
				t.Errorf("Outbox-Published-At is %q", header(s, "Outbox-Published-At"))
			}
		}
	}
}

// sentAgain: another attempt at a message has the same id and headers, and where that is promised it is stored once.
func sentAgain(t TB, h Harness) {
	d := message(0, "again")
	mustSend(t, h, d)
	second := *d
	second.Attempt = 2
	mustSend(t, h, &second)
	copies := stored(t, h)[d.ID.String()]
	want := 2
	if h.Features().Deduplicates {
		want = 1
	}
	if len(copies) != want {
		t.Fatalf("stored %d times instead of %d", len(copies), want)
	}
	if !maps.Equal(copies[0].Headers, copies[len(copies)-1].Headers) {
		t.Errorf("the copies differ: %v, %v", copies[0].Headers, copies[len(copies)-1].Headers)
	}
}

// redriven: an operator who sends a message again wants it to arrive again, under its id.
func redriven(t TB, h Harness) {
	d := message(0, "redriven")
	mustSend(t, h, d)
	again := *d
	again.Generation = 1
	mustSend(t, h, &again)
	copies := stored(t, h)[d.ID.String()]
	if len(copies) != 2 {
		t.Fatalf("stored %d times instead of 2", len(copies))
	}
	if g := header(copies[1], "Outbox-Generation"); g != "1" {
		t.Errorf("Outbox-Generation is %q", g)
	}
}

// tooLarge: the message is dead, those around it are delivered.
func tooLarge(t TB, h Harness) {
	size := h.Features().TooLarge
	if size == 0 {
		t.Skip("no message is too large")
	}
	ds := messages(20)
	ds[10].Payload = make([]byte, size)
	failsAlone(t, h, ds, 10)
}

// failsAlone sends a batch in which one message must fail for ever.
func failsAlone(t TB, h Harness, ds []*outbox.Delivery, bad int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for i, err := range send(t, ctx, h, ds...) {
		if i == bad {
			mustBe(t, "permanent", err)
		} else {
			mustBe(t, "delivered", err)
		}
	}
	mustBe(t, "permanent", one(t, ctx, h, ds[bad]))
	mustHoldOnly(t, h, slices.Delete(slices.Clone(ds), bad, bad+1)...)
}

// hostileHeaders: a row that got around publishing's checks breaks no frame, forges no header and stops nobody else.
func hostileHeaders(t TB, h Harness) {
	if !h.Features().LineHeaders {
		t.Skip("the protocol carries line breaks")
	}
	for name, spoil := range map[string]func(d *outbox.Delivery){
		"value":     func(d *outbox.Delivery) { d.SetHeaders(map[string]string{"a": "b\r\nForged: yes"}) },
		"line feed": func(d *outbox.Delivery) { d.SetHeaders(map[string]string{"a": "b\nForged: yes"}) },
		"return":    func(d *outbox.Delivery) { d.SetHeaders(map[string]string{"a": "b\rForged: yes"}) },
		"end":       func(d *outbox.Delivery) { d.SetHeaders(map[string]string{"a": "\r\n\r\nPUB x 1\r\n"}) },
		"name":      func(d *outbox.Delivery) { d.SetHeaders(map[string]string{"a\r\nForged": "yes"}) },
		"colon":     func(d *outbox.Delivery) { d.SetHeaders(map[string]string{"Forged: yes, a": "yes"}) },
		"no name":   func(d *outbox.Delivery) { d.SetHeaders(map[string]string{"": "yes"}) },
		"key":       func(d *outbox.Delivery) { d.Key = "k\r\nForged: yes" },
		"reserved":  func(d *outbox.Delivery) { d.SetHeaders(map[string]string{"outbox-id": "forged"}) },
	} {
		bad, good := message(1, "bad "+name), message(2, "good "+name)
		spoil(bad)
		before := stored(t, h)
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		results := send(t, ctx, h, bad, good)
		cancel()
		if kindOf(results[0]) != "permanent" || results[1] != nil {
			t.Errorf("%s: %v, and beside it: %v", name, results[0], results[1])
		}
		after := stored(t, h)
		mustHold(t, h, after, good)
		if len(after) != len(before)+1 {
			t.Errorf("%s: the destination has %d messages more", name, len(after)-len(before))
		}
	}
	for _, copies := range stored(t, h) {
		for _, s := range copies {
			if header(s, "Forged") != "" {
				t.Errorf("a forged header arrived: %v", s.Headers)
			}
		}
	}
}

// lineHeadersSurvive: what a text protocol could not carry is nothing special to others.
func lineHeadersSurvive(t TB, h Harness) {
	if h.Features().LineHeaders {
		t.Skip("the protocol cannot carry line breaks")
	}
	d := message(0, "x")
	d.Key = "k\r\nForged: yes"
	d.Headers = map[string]string{"lines": "b\r\nForged: yes", "end": "\r\n\r\nPUB x 1\r\n", "nul": "a\x00b", "bytes": "\xff\xfe"}
	mustSend(t, h, d)
	mustHoldOnly(t, h, d)
	for _, s := range stored(t, h)[d.ID.String()] {
		if header(s, "Forged") != "" || header(s, "Outbox-Key") != d.Key {
			t.Errorf("headers %q", s.Headers)
		}
		for name, want := range d.Headers {
			if got := s.Headers[name]; got != want {
				t.Errorf("header %s is %q instead of %q", name, got, want)
			}
		}
	}
	for name, value := range map[string]string{"outbox-id": "forged", "": "yes"} {
		bad, good := message(1, "bad"), message(2, "good")
		bad.Headers = map[string]string{name: value}
		refusedBeside(t, h, bad, good)
	}
}

// refusedBeside sends a message that must fail for ever beside one that must not.
func refusedBeside(t TB, h Harness, bad, good *outbox.Delivery) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	results := send(t, ctx, h, bad, good)
	mustBe(t, "permanent", results[0])
	mustBe(t, "delivered", results[1])
	all := stored(t, h)
	mustHold(t, h, all, good)
	if len(all[bad.ID.String()]) > 0 {
		t.Error("the refused message is stored")
	}
}

// partialFailure: each message has its own result, wherever in the batch the others fail, first, last and side by side.
func partialFailure(t TB, h Harness) {
	ds := messages(30)
	bad := map[int]bool{0: true, 7: true, 8: true, 9: true, 20: true, 29: true}
	var good []*outbox.Delivery
	for i, d := range ds {
		if bad[i] {
			d.Headers = map[string]string{"Outbox-Seq": "forged"}
		} else {
			good = append(good, d)
		}
	}
	for range 2 { // the same again: permanent stays permanent
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		for i, err := range send(t, ctx, h, ds...) {
			if bad[i] {
				mustBe(t, "permanent", err)
			} else {
				mustBe(t, "delivered", err)
			}
		}
		cancel()
	}
	mustHoldOnly(t, h, good...)
}

// deliveriesUnchanged: the relay may deliver the same bytes again.
func deliveriesUnchanged(t TB, h Harness) {
	ds, before := messages(10), messages(10)
	for i, d := range ds {
		d.Key = "k"
		d.SetHeaders(map[string]string{"a": "b"})
		copied := *d
		copied.Headers, copied.Payload = maps.Clone(d.Headers), slices.Clone(d.Payload)
		before[i] = &copied
	}
	mustSend(t, h, ds...)
	for i := range ds {
		if !reflect.DeepEqual(ds[i], before[i]) {
			t.Errorf("message %d was changed to %+v", i, ds[i])
		}
	}
}

func emptyBatch(t TB, h Harness) {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	err := batches(h.Sink()).DeliverBatch(ctx, nil, func(i int, err error) { t.Errorf("result of message %d: %v", i, err) })
	if err != nil {
		t.Error(err)
	}
}
