package listing

import (
	"errors"
	"slices"
	"testing"

	"github.com/outboxrelay/outbox"
)

func TestTables(t *testing.T) {
	if got := Tables(outbox.States(), ""); !slices.Equal(got, []string{"message", "waiting", "dead", "archive"}) {
		t.Errorf("all states are in %q", got)
	}
	if got := Tables([]outbox.State{outbox.StateDiscarded, outbox.StateReady}, ""); !slices.Equal(got, []string{"message", "archive"}) {
		t.Errorf("two states are in %q", got)
	}
}

func TestPlaces(t *testing.T) {
	in := []string{"message", "archive"}
	for _, text := range []string{"message:0:0", "archive:12:3", "message:9223372036854775807:0"} {
		p, err := Parse(text, in)
		if err != nil || p.String() != text {
			t.Errorf("%s: %+v, %v", text, p, err)
		}
	}
	if p, err := Parse("", in); err != nil || p != (Place{Table: "message"}) {
		t.Errorf("the beginning is %+v, %v", p, err)
	}
	for _, text := range []string{"x", "dead:1:0", "message:1", "message:1:0 or", "message: 1:0", "message:1:0:0", "message:+1:0", ":"} {
		var refused *outbox.FieldError
		if _, err := Parse(text, in); !errors.As(err, &refused) || refused.Field != "After" || refused.Value != text {
			t.Errorf("%q: %v", text, err)
		}
	}
	if Following(in, "message") != (Place{Table: "archive"}) || Following(in, "archive").String() != "" {
		t.Error("what follows is wrong")
	}
}
