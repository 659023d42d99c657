package main

import (
	"testing"

	"github.com/outboxrelay/outbox"
)

// TestKeysTellOfSuspects: a key is not shown without a reason when relays have died with its head and nobody saw it fail.
func TestKeysTellOfSuspects(t *testing.T) {
	for _, c := range []struct {
		hold outbox.KeyHold
		want string
	}{
		{outbox.KeyHold{Lapses: outbox.SuspectLapses}, "relays have died with it"},
		{outbox.KeyHold{Lapses: outbox.SuspectLapses - 1}, ""},
		{outbox.KeyHold{Lapses: outbox.SuspectLapses, Class: outbox.ClassCrash, Text: "the relay died"}, "crash: the relay died"},
		{outbox.KeyHold{Class: outbox.ClassError, Text: "no"}, "error: no"},
	} {
		rows := keyRows(&outbox.Keys{Holds: []outbox.KeyHold{c.hold}})
		if got := rows[1][len(rows[1])-1]; got != c.want {
			t.Errorf("%+v is shown with %q, want %q", c.hold, got, c.want)
		}
		if got := newKeys(&outbox.Keys{Holds: []outbox.KeyHold{c.hold}}).Keys[0].Lapses; got != c.hold.Lapses {
			t.Errorf("%d lapses in JSON, want %d", got, c.hold.Lapses)
		}
	}
}
