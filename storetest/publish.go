package storetest

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/outboxrelay/outbox"
)

func publishCases() []Case {
	return []Case{
		{"a message is claimable from its commit on and not before", Atomic, committedIsClaimable},
		{"a rolled back message never exists", Atomic, rolledBackNeverExists},
		{"payloads survive byte for byte", NothingLost, bytesSurvive},
		{"headers survive as written", NothingLost, headersSurvive},
		{"a message tells what caused it", NothingLost, causation},
		{"the settings of a message survive", NothingLost, settingsSurvive},
		{"ten messages are kept in the order of the call", OrderPerKey, tenInOrder},
		{"a message beyond the limits is refused before anything is published", Atomic, limitsRefused},
	}
}

// causation: the chain of the context travels with the message, and grows by each that is published because of another.
func causation(e *env) {
	r := e.relay()
	for i, ids := range [][]string{nil, {"request-1"}, {"request-1", outbox.NewID().String()}} {
		tx := e.begin()
		for _, p := range []string{"one", "two"} {
			m := msg("a", "", p)
			m.Headers = map[string]string{"mine": "1"}
			_, err := tx.Publish(outbox.WithCausation(e.ctx, ids...), m)
			e.must(err)
		}
		e.commit(tx)
		ds := r.takes("one", "two")
		for _, d := range ds {
			e.equal(fmt.Sprintf("causes of message %d", i), d.Causation(), ids)
			e.equal("its own header", d.Headers["mine"], "1")
		}
		tx = e.begin()
		_, err := tx.Publish(outbox.CausedBy(e.ctx, ds[0]), msg("a", "", "next"))
		e.must(err)
		e.commit(tx)
		next := r.takes("next")[0]
		e.equal("causes of the next message", next.Causation(), append(ids, ds[0].ID.String()))
		r.deliver(append(ds, next)...)
	}
}

func committedIsClaimable(e *env) {
	r := e.relay()
	tx := e.begin()
	receipts := e.publishIn(tx, msg("orders.created", "k", "one"))
	e.equal("committed before the commit", e.counts(), Counts{})
	if !e.h.Features().OneWriter { // else a claim would wait for the transaction
		r.takesNothing()
	}
	e.commit(tx)

	d := r.takes("one")[0]
	e.equal("id", d.ID, receipts[0].ID)
	e.equal("topic and key", []string{d.Topic, d.Key}, []string{"orders.created", "k"})
	e.equal("attempt and generation", []int{d.Attempt, d.Generation}, []int{1, 0})
	e.equal("relay of the claim", d.Claim.Relay, r.info.ID)
	if d.PublishedAt.IsZero() || !d.Deadline.IsZero() {
		e.Errorf("published at %v, deadline %v", d.PublishedAt, d.Deadline)
	}
	r.deliver(d)
	e.equal("what is left", e.counts(), Counts{})
}

func rolledBackNeverExists(e *env) {
	r := e.relay()
	tx := e.begin(msg("a", "k", "never"), msg("a", "", "neither"))
	e.rollback(tx)
	e.publish(msg("a", "k", "other"))
	r.takes("other")
	r.takesNothing()
	e.equal("what is kept", e.counts(), Counts{Ready: 1, Claimed: 1, Claims: 1})
}

func bytesSurvive(e *env) {
	all := make([]byte, 1<<20)
	for i := range all {
		all[i] = byte(i)
	}
	payloads := [][]byte{nil, {}, []byte("a\x00b\x00"), {0xff, 0xfe, 0xc3}, []byte(`\x41 \\ ' "`), all}
	var ms []outbox.Message
	for _, p := range payloads {
		ms = append(ms, outbox.Message{Topic: "a", Payload: p})
	}
	want := map[outbox.ID][]byte{}
	for i, receipt := range e.publish(ms...) {
		want[receipt.ID] = payloads[i]
	}
	for _, d := range e.relay().take(len(ms)) {
		if !bytes.Equal(d.Payload, want[d.ID]) {
			e.Errorf("payload of %d bytes became %d bytes or others", len(want[d.ID]), len(d.Payload))
		}
	}
}

func headersSurvive(e *env) {
	headers := map[string]string{
		"X-Mixed.Case_1": "kept", "empty": "", "quotes": `a "b" \ 'c' {"d": null}`, "unicode": "größe 漢字 🙂",
	}
	e.publish(outbox.Message{Topic: "a", Headers: maps.Clone(headers), ContentType: "text/plain"})
	d := e.relay().take(1)[0]
	headers["content-type"] = "text/plain"
	e.equal("headers", d.Headers, headers)
	e.equal("content type", d.ContentType, "text/plain")
}

func settingsSurvive(e *env) {
	full := outbox.Message{
		Topic: strings.Repeat("t", outbox.MaxTopicBytes), Key: strings.Repeat("ü", outbox.MaxKeyBytes/2),
		BrokerTTL: 90 * time.Second, MaxAttempts: 7,
	}
	unlimited := outbox.Message{Topic: "a", MaxAttempts: outbox.Unlimited}
	want := map[outbox.ID]outbox.Message{}
	for i, receipt := range e.publish(full, unlimited) {
		want[receipt.ID] = []outbox.Message{full, unlimited}[i]
	}
	for _, d := range e.relay().take(2) {
		m := want[d.ID]
		e.equal("topic", d.Topic, m.Topic)
		e.equal("key", d.Key, m.Key)
		e.equal("broker TTL", d.BrokerTTL, m.BrokerTTL)
		e.equal("max attempts", d.MaxAttempts, m.MaxAttempts)
	}
}

func tenInOrder(e *env) {
	var ms []outbox.Message
	var want []string
	for i := range 10 {
		want = append(want, fmt.Sprint(i))
		ms = append(ms, msg("a", "", want[i]))
	}
	e.publish(ms...)
	claims := e.relay().claimUntil(10)
	bySeq := func(a, b *outbox.Delivery) int { return int(a.Seq - b.Seq) }
	for _, c := range claims {
		if !slices.IsSortedFunc(c.Deliveries, bySeq) {
			e.Errorf("a claim is not in publish order: %q", labels(c.Deliveries))
		}
	}
	ds := deliveries(claims)
	slices.SortFunc(ds, bySeq)
	e.equal("publish order", labels(ds), want)
}

func limitsRefused(e *env) {
	good := msg("a", "", "good")
	for _, bad := range []outbox.Message{
		{Topic: ""},
		{Topic: "a..b"},
		{Topic: "größe"},
		{Topic: "a.*"},
		{Topic: "a", Key: strings.Repeat("k", outbox.MaxKeyBytes+1)},
		{Topic: "a", Key: "a\x00b"},
		{Topic: "a", DedupKey: "\xff"},
		{Topic: "a", Payload: make([]byte, outbox.DefaultMaxPayload+1)},
		{Topic: "a", Headers: map[string]string{"Outbox-Id": "x"}},
		{Topic: "a", Headers: map[string]string{"x": "a\nb"}},
		{Topic: "a", Delay: -time.Second},
		{Topic: "a", TTL: time.Second, ExpiresAt: time.Now()},
	} {
		tx := e.begin()
		_, err := tx.Publish(e.ctx, good, bad)
		if field := (*outbox.FieldError)(nil); !errors.As(err, &field) || field.Field == "" || field.Bound == "" {
			e.Errorf("publishing %.60q returned %v, want a FieldError", fmt.Sprintf("%+v", bad), err)
		}
		e.commit(tx)
	}
	e.equal("what is kept", e.counts(), Counts{})
	e.publish(good)
	e.relay().takes("good")
}
