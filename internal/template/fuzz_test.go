package template_test

import (
	"testing"

	"github.com/outboxrelay/outbox"
	"github.com/outboxrelay/outbox/internal/template"
)

// FuzzParse: a template that is accepted is the text again when its parts are joined, and values are put in as they are,
// also when they look like variables.
func FuzzParse(f *testing.F) {
	for _, text := range []string{"", "{topic}", "a{key}b{header.X-Y}c", "{", "}", "{{topic}}", "{header.}", "}{", "{topic}{topic}", "\xff{key}"} {
		f.Add(text, "{topic}")
	}
	f.Fuzz(func(t *testing.T, text, value string) {
		parsed, err := template.Parse(text)
		if err != nil {
			return
		}
		d := &outbox.Delivery{Message: outbox.Message{Topic: value, Key: value, Headers: map[string]string{}}}
		want := ""
		joined := parsed.Join(func(p template.Part) string {
			switch p.Kind {
			case template.Topic:
				return "{topic}"
			case template.Key:
				return "{key}"
			case template.Header:
				d.Headers[p.Text] = value
				return "{header." + p.Text + "}"
			}
			return p.Text
		})
		for _, p := range parsed {
			if p.Kind == template.Literal {
				want += p.Text
			} else {
				want += value
			}
		}
		if joined != text {
			t.Errorf("%q was parsed to %q", text, joined)
		}
		if got := parsed.Of(d); got != want {
			t.Errorf("%q of %q makes %q, want %q", text, value, got, want)
		}
	})
}
