package history

import (
	"slices"
	"testing"
	"testing/synctest"
)

func TestMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := NewMemory()
		publisher, relay := m.Log("publisher"), m.Log("relay")
		appendAll := func(l *Log, events ...Event) {
			if err := l.Append(events...); err != nil {
				t.Fatal(err)
			}
		}
		before := relay.Now()
		appendAll(publisher, Event{Kind: Publishing, Message: "m"}, Event{Kind: Committed, Message: "m"})
		appendAll(relay, Event{Kind: RelayStarted, Relay: "r"})
		m.Kill("relay")
		appendAll(relay, Event{Kind: RelayStopped, Relay: "r"})
		appendAll(publisher, Event{Kind: RolledBack, Message: "n"})
		if err := publisher.Append(Event{Kind: Committed}); err == nil {
			t.Error("an event without its message was accepted")
		}
		last := before
		var kinds []Kind
		for _, e := range m.Events() {
			if e.At <= last {
				t.Errorf("%s at %d, after %d", e.Kind, e.At, last)
			}
			last = e.At
			kinds = append(kinds, e.Kind)
		}
		want := []Kind{Publishing, Committed, RelayStarted, Killed, RolledBack}
		if !slices.Equal(kinds, want) {
			t.Errorf("%v, want %v", kinds, want)
		}
		if err := relay.Close(); err != nil {
			t.Error(err)
		}
	})
}
