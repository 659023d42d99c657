package template

import (
	"strings"
	"testing"

	"github.com/outboxrelay/outbox"
)

func TestTemplate(t *testing.T) {
	d := &outbox.Delivery{Message: outbox.Message{Topic: "a.b", Key: "k", Headers: map[string]string{"Tenant": "t1"}}}
	for text, want := range map[string]string{
		"": "", "x": "x", "{topic}": "a.b", "x.{topic}.y": "x.a.b.y", "{key}{key}": "kk", "{header.tenant}/{header.Tenant}/{header.no}": "t1/t1/",
	} {
		parsed, err := Parse(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
		}
		if got := parsed.Of(d); got != want {
			t.Errorf("%s makes %q instead of %q", text, got, want)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	for text, why := range map[string]string{
		"{": "without its }", "}": "without its {", "a}b{": "without its {", "{x}": "unknown variable {x}", "{header.}": "unknown", "{header.a b}": "unknown",
	} {
		if _, err := Parse(text); err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("%s: %v", text, err)
		}
	}
}
