package alike

import (
	"slices"
	"testing"
	"time"

	"github.com/outboxrelay/outbox"
)

func TestFold(t *testing.T) {
	for text, want := range map[string]string{
		"": "", "no such customer: größe": "no such customer: größe",
		"order 17 of 2026-01-01T00:00:00Z":                    "order N of N-N-NTN:N:NZ",
		"id 019545c8-4c35-7000-8000-000000000001 is gone":     "id UUID is gone",
		"id=019545C8-4C35-7000-8000-000000000001,x":           "id=UUID,x",
		"not a uuid: 019545c8-4c35-7000-8000-0000000000012":   "not a uuid: HEX-NcN-N-N-N",
		"sha deadbeef01 and deadbeef, user_7, h2o, 12345678":  "sha HEX and deadbeef, user_N, hNo, N",
		"dial tcp 10.0.0.1:5672: connect: connection refused": "dial tcp N.N.N.N:N: connect: connection refused",
		"\xff\x00 1": "\xff\x00 N",
	} {
		if got := Fold(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

func TestGroups(t *testing.T) {
	at := func(minute int) time.Time { return time.Date(2026, 3, 10, 0, minute, 0, 0, time.UTC) }
	youngest := outbox.NewID()
	var gs Groups
	gs.Add(outbox.DeadGroup{Topic: "b", Text: "other", Messages: 1, First: at(0), Last: at(0)})
	gs.Add(outbox.DeadGroup{Topic: "a", Text: "took 5s", Messages: 2, Holding: 1, First: at(3), Last: at(4)})
	gs.Add(outbox.DeadGroup{Topic: "a", Text: "took 17s", Messages: 3, First: at(1), Last: at(9), Example: youngest})
	gs.Add(outbox.DeadGroup{Topic: "a", Text: "took 1s", Messages: 1, First: at(2), Last: at(5)})
	want := []outbox.DeadGroup{
		{Topic: "a", Text: "took Ns", Messages: 6, Holding: 1, First: at(1), Last: at(9), Example: youngest},
		{Topic: "b", Text: "other", Messages: 1, First: at(0), Last: at(0)},
	}
	if got := gs.List(); !slices.Equal(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}
