package sinktest

import (
	"bytes"
	"context"
	"fmt"
	"slices"

	"github.com/outboxrelay/outbox"
)

// pipelinedOrder sends calls with many messages of few keys, one of them refused if the destination refuses any, and
// demands that each key's are stored in the order of the call. It is for sinks that declare pipelining.
func pipelinedOrder(t TB, h Harness) {
	p, ok := h.Sink().(outbox.Pipeliner)
	if !ok || !p.Pipelines() {
		t.Log("the sink does not declare pipelining")
		return
	}
	const calls, each, keys = 3, 300, 3
	want := map[string][]string{}
	for call := range calls {
		ds := messages(each)
		refused := -1
		for i, d := range ds {
			d.Key = fmt.Sprint("key ", i%keys)
			d.Payload = fmt.Appendf(nil, "%d.%d", call, i)
			d.Seq += int64(call * each)
			if i == each/2 && h.Features().TooLarge > 0 {
				refused, d.Payload = i, bytes.Repeat([]byte("x"), h.Features().TooLarge)
				continue
			}
			want[d.Key] = append(want[d.Key], string(d.Payload))
		}
		sendPipelined(t, h, ds, refused)
	}
	all, err := h.Stored(t.Context())
	if err != nil {
		t.Fatalf("read the destination: %v", err)
	}
	got := map[string][]string{}
	for _, s := range all {
		key := header(s, "Outbox-Key")
		got[key] = append(got[key], string(s.Payload))
	}
	for key, order := range want {
		if !slices.Equal(got[key], order) {
			t.Errorf("%s is stored as %q, sent as %q", key, got[key], order)
		}
	}
}

// sendPipelined sends a call of which only the one message is refused.
func sendPipelined(t TB, h Harness, ds []*outbox.Delivery, refused int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for i, err := range send(t, ctx, h, ds...) {
		if i == refused {
			mustBe(t, "permanent", err)
		} else if err != nil {
			t.Fatalf("message %d of %d: %v", i, len(ds), err)
		}
	}
}
