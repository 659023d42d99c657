package natssink

import (
	"errors"
	"strings"
	"testing"

	"github.com/outboxrelay/outbox"
	"github.com/outboxrelay/outbox/internal/template"
)

func TestSubject(t *testing.T) {
	d := &outbox.Delivery{Message: outbox.Message{
		Topic: "orders.created", Key: "order-7", Headers: map[string]string{"Region": "eu", "bad": "a b", "dots": "a.b", "empty": ""},
	}}
	for template, want := range map[string]string{
		"{topic}": "orders.created", "events.{topic}": "events.orders.created", "{topic}.{key}": "orders.created.order-7",
		"fixed": "fixed", "{header.region}.{header.dots}": "eu.a.b", "pre-{key}-post": "pre-order-7-post",
		"{header.bad}": "", "{header.missing}": "", "x.{header.empty}": "", "{header.empty}.x": "", "x.{header.empty}.x": "",
	} {
		s, err := parseSubject(template)
		if err != nil {
			t.Errorf("%s: %v", template, err)
			continue
		}
		if got, err := s.of(d); got != want || (err != nil) != (want == "") {
			t.Errorf("%s makes %q, %v", template, got, err)
		}
	}
}

func TestSubjectRefused(t *testing.T) {
	for _, template := range []string{
		"", "{", "}", "{topic", "topic}", "{{topic}}", "{Topic}", "{header.}", "{header.a b}", "{header}", "{}", "a..b", ".a", "a.",
		"a b", "*", "a.>", "$JS.API", "a\n", "{topic}.", "{key}..{topic}",
	} {
		_, err := parseSubject(template)
		var field *outbox.FieldError
		if !errors.As(err, &field) || field.Field != "Config.Subject" {
			t.Errorf("%q: %v", template, err)
		}
	}
}

func TestSubjectPattern(t *testing.T) {
	for _, c := range [][3]string{
		{"{topic}", "orders.>", "orders.>"}, {"{topic}", ">", ">"}, {"events.{topic}", "a.*", "events.a.*"},
		{"{topic}.x", "a.b", "a.b.x"}, {"{topic}.x", "a.>", ">"}, {"{topic}.x", "a.*", "a.*.x"}, {"e.{topic}.x", "a.>", "e.>"},
		{"a.{key}", "t", "a.>"}, {"{key}", "t", ">"}, {"fixed", "t", "fixed"}, {"a.pre-{key}", "t", "a.>"},
		{"pre-{topic}", "*", ">"}, {"pre-{topic}", "t", "pre-t"},
	} {
		s, err := parseSubject(c[0])
		if err != nil {
			t.Fatal(err)
		}
		if got := s.pattern(c[1]); got != c[2] {
			t.Errorf("%s of %s: %s, want %s", c[0], c[1], got, c[2])
		}
	}
}

func TestPatterns(t *testing.T) {
	for _, c := range []struct {
		wide, narrow     string
		covers, overlaps bool
	}{
		{">", "a.b", true, true}, {"a.>", "a", false, false}, {"a.*", "a.b", true, true}, {"a.b", "a.*", false, true},
		{"a.*", "a.>", false, true}, {"*.b", "a.*", false, true}, {"a.b", "a.c", false, false}, {"a.>", ">", false, true},
		{"a", "a.b", false, false}, {"a.*.c", "a.b.d", false, false}, {"a.>", "a.*", true, true},
	} {
		if got := covers(c.wide, c.narrow); got != c.covers {
			t.Errorf("%s covers %s: %v", c.wide, c.narrow, got)
		}
		if a, b := overlaps(c.wide, c.narrow), overlaps(c.narrow, c.wide); a != c.overlaps || b != c.overlaps {
			t.Errorf("%s overlaps %s: %v, %v", c.wide, c.narrow, a, b)
		}
	}
}

// FuzzSubject: a template that is accepted makes subjects that are valid or errors, and they belong to its pattern.
func FuzzSubject(f *testing.F) {
	for _, text := range []string{"{topic}", "a.{key}.{header.x-y}", "{", "}{", "{topic}{key}", "a..{topic}", "{header.}", "é.{key}"} {
		f.Add(text, "orders.created", "k 1", "v")
	}
	f.Fuzz(func(t *testing.T, text, topic, key, value string) {
		s, err := parseSubject(text)
		if err != nil || outbox.CheckTopic(topic) != nil {
			return
		}
		if joined := template.Template(s).Join(placeholder); joined != text {
			t.Fatalf("%q was parsed to %q", text, joined)
		}
		d := &outbox.Delivery{Message: outbox.Message{Topic: topic, Key: key, Headers: map[string]string{}}}
		for _, p := range s {
			if p.Kind == template.Header {
				d.Headers[p.Text] = value
			}
		}
		made, err := s.of(d)
		if err != nil {
			return
		}
		if checkSubject(made) != nil || strings.ContainsAny(made, " \t\r\n*>") {
			t.Errorf("%q made the subject %q", text, made)
		}
		for _, pattern := range []string{topic, ">"} {
			if subjects := s.pattern(pattern); !covers(subjects, made) {
				t.Errorf("the subject %q is not covered by %q", made, subjects)
			}
		}
	})
}

func placeholder(p template.Part) string {
	switch p.Kind {
	case template.Topic:
		return "{topic}"
	case template.Key:
		return "{key}"
	}
	return "{header." + p.Text + "}"
}
