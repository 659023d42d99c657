package outbox_test

import (
	"context"
	"errors"
	"regexp"
	"strings"
	"testing"

	"github.com/outboxrelay/outbox"
	"github.com/outboxrelay/outbox/outboxtest"
)

func TestMatchTopic(t *testing.T) {
	for _, tc := range []struct {
		pattern, topic string
		match          bool
	}{
		{"a", "a", true}, {"a", "b", false}, {"a", "a.b", false}, {"a.b", "a", false}, {"a.b", "a.b", true},
		{"a", "A", false}, {"a", "aa", false},
		{"*", "a", true}, {"*", "a.b", false}, {"a.*", "a.b", true}, {"a.*", "a", false}, {"a.*", "a.b.c", false},
		{"*.b", "a.b", true}, {"*.b", "a.c", false}, {"a.*.c", "a.b.c", true}, {"a.*.c", "a.b.d", false},
		{">", "a", true}, {">", "a.b.c", true}, {"a.>", "a.b", true}, {"a.>", "a.b.c", true}, {"a.>", "a", false},
		{"a.>", "ab.c", false}, {"*.>", "a.b", true}, {"*.>", "a", false}, {"a.*.>", "a.b.c", true}, {"a.*.>", "a.b", false},
	} {
		if got := outbox.MatchTopic(tc.pattern, tc.topic); got != tc.match {
			t.Errorf("MatchTopic(%q, %q) = %v", tc.pattern, tc.topic, got)
		}
	}
}

func TestCheckPattern(t *testing.T) {
	for pattern, ok := range map[string]bool{
		"a": true, "a.b": true, "*": true, ">": true, "a.*": true, "*.*": true, "a.>": true, "A-1_b": true,
		"": false, ".": false, "a.": false, ".a": false, "a..b": false, ">.a": false, "a.>.b": false, "a*": false,
		"a.b>": false, "**": false, "a b": false, "ä": false, strings.Repeat("a", 255): true, strings.Repeat("a", 256): false,
	} {
		if err := outbox.CheckPattern(pattern); (err == nil) != ok {
			t.Errorf("CheckPattern(%q) = %v", pattern, err)
		}
	}
}

func TestTopicSet(t *testing.T) {
	set := outbox.TopicSet{{Pattern: "a.b", In: false}, {Pattern: "a.>", In: true}, {Pattern: "*", In: false}, {Pattern: "c", In: true}}
	for topic, in := range map[string]bool{"a.b": false, "a.c": true, "a": false, "c": false, "d.e": false} {
		if set.Contains(topic) != in {
			t.Errorf("contains %s: %v", topic, !in)
		}
	}
	if set.IsEmpty() || !(outbox.TopicSet{{Pattern: "a", In: false}}).IsEmpty() || !(outbox.TopicSet)(nil).IsEmpty() {
		t.Error("IsEmpty is wrong")
	}
}

var (
	topicForm   = regexp.MustCompile(`\A[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*\z`)
	patternForm = regexp.MustCompile(`\A(([A-Za-z0-9_-]+|\*)(\.([A-Za-z0-9_-]+|\*))*(\.>)?|>)\z`)
)

func FuzzCheckTopic(f *testing.F) {
	for _, s := range []string{"a.b", "", "a.*", "ä", "a\n"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		want := len(s) <= outbox.MaxTopicBytes && topicForm.MatchString(s)
		if err := outbox.CheckTopic(s); (err == nil) != want {
			t.Errorf("CheckTopic(%q) = %v", s, err)
		}
	})
}

func FuzzCheckPattern(f *testing.F) {
	for _, s := range []string{"a.b", "", "a.*.>", ">", "a.>.b", "a\n"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		want := len(s) <= outbox.MaxTopicBytes && patternForm.MatchString(s)
		if err := outbox.CheckPattern(s); (err == nil) != want {
			t.Errorf("CheckPattern(%q) = %v", s, err)
		}
	})
}

// FuzzMatchTopic compares with the pattern as a regular expression.
func FuzzMatchTopic(f *testing.F) {
	f.Add("a.*.>", "a.b.c")
	f.Add(">", "a")
	f.Add("a.>", "a")
	f.Fuzz(func(t *testing.T, pattern, topic string) {
		if outbox.CheckPattern(pattern) != nil || outbox.CheckTopic(topic) != nil {
			return
		}
		form := regexp.QuoteMeta(pattern)
		form = strings.ReplaceAll(form, `\*`, `[^.]+`)
		form = strings.ReplaceAll(form, `>`, `.+`)
		want := regexp.MustCompile(`\A` + form + `\z`).MatchString(topic)
		if got := outbox.MatchTopic(pattern, topic); got != want {
			t.Errorf("MatchTopic(%q, %q) = %v", pattern, topic, got)
		}
	})
}

type order struct {
	ID    string
	Total int
}

var orderCreated = outbox.NewTopic[order]("orders.created")

func TestTypedTopic(t *testing.T) {
	m, err := orderCreated.Message("k", order{"1", 5})
	if err != nil || m.Topic != "orders.created" || m.Key != "k" || m.ContentType != "application/json" || string(m.Payload) != `{"ID":"1","Total":5}` {
		t.Fatalf("%+v, %v", m, err)
	}
	mux := outbox.NewMux()
	var got order
	outbox.On(mux, orderCreated, func(_ context.Context, _ *outbox.Delivery, o order) error { got = o; return nil })
	if err := outboxtest.Deliver(t, mux, m); err != nil || got != (order{"1", 5}) {
		t.Errorf("handled %+v, %v", got, err)
	}
	m.Payload = []byte("{")
	if err := outboxtest.Deliver(t, mux, m); !outbox.IsPermanent(err) {
		t.Errorf("undecodable payload: %v", err)
	}
	if _, err := outbox.NewTopic[order]("a b").Message("", order{}); err == nil {
		t.Error("a message of an invalid topic")
	}
	if _, err := outbox.NewTopic[chan int]("a").Message("", nil); err == nil || !strings.Contains(err.Error(), "topic a") {
		t.Errorf("a payload that cannot be encoded: %v", err)
	}
}

func TestMuxFindsHandlers(t *testing.T) {
	mux := outbox.NewMux()
	var called string
	for _, pattern := range []string{"a.*", "a.>", "a.b", "*.z"} {
		mux.Handle(pattern, func(context.Context, *outbox.Delivery) error { called = pattern; return nil })
	}
	for topic, want := range map[string]string{"a.b": "a.b", "a.c": "a.*", "a.b.c": "a.>", "b.z": "*.z", "a.z": "a.*"} {
		called = ""
		if err := outboxtest.Deliver(t, mux, outbox.Message{Topic: topic}); err != nil || called != want {
			t.Errorf("topic %s went to %q, %v", topic, called, err)
		}
	}
	if err := outboxtest.Deliver(t, mux, outbox.Message{Topic: "b"}); err == nil {
		t.Error("a topic without a handler was accepted")
	}
}

// TestErrorMarks: the marks survive wrapping, keep the text and the chain, and nil stays nil.
func TestErrorMarks(t *testing.T) {
	boom := errors.New("boom")
	for _, mark := range []func(error) error{
		outbox.Permanent, outbox.Unavailable, func(err error) error { return outbox.RetryAfter(-5, err) },
	} {
		if mark(nil) != nil {
			t.Error("a mark of nil is not nil")
		}
		if err := mark(boom); !errors.Is(err, boom) || err.Error() != "boom" {
			t.Errorf("%v", err)
		}
	}
	if d, ok := outbox.RetryDelay(outbox.RetryAfter(-5, boom)); !ok || d != 0 {
		t.Errorf("negative delay became %v, %v", d, ok)
	}
	if reason, ok := outbox.DropReason(outbox.Drop("old")); !ok || reason != "old" {
		t.Errorf("reason %q, %v", reason, ok)
	}
	if outbox.IsPermanent(boom) || outbox.IsUnavailable(boom) {
		t.Error("a plain error has a mark")
	}
}
