package demo

import (
	"strings"
	"testing"
	"time"
)

// TestProgress: on a terminal one line changes in place; elsewhere there are few lines.
func TestProgress(t *testing.T) {
	var out strings.Builder
	p := newProgress(&out)
	p.show("too early")
	p.say("event")
	p.shown = p.shown.Add(-time.Minute)
	p.show("state %d", 1)
	p.show("too early again")
	p.clear()
	if got, want := out.String(), "event\nstate 1\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}

	out.Reset()
	p.terminal, p.interval = true, 0
	p.show("state 1")
	p.show("state 2")
	p.say("event")
	p.show("state 3")
	p.clear()
	if got, want := out.String(), "state 1"+clearLine+"state 2"+clearLine+"event\nstate 3"+clearLine; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
