package demo

import (
	"fmt"
	"strings"
	"testing"

	"github.com/outboxrelay/outbox"
)

// TestJudge plants each thing that can go wrong, and what may happen.
func TestJudge(t *testing.T) {
	const others = 3 // committed messages a, b and c of one key
	clean := Verdict{Committed: others, RolledBack: 1, Delivered: others, Keys: 1}
	for _, c := range []struct {
		name, arrivals string
		want           func(v *Verdict)
		says           string
	}{
		{"all is well", "a b c", func(*Verdict) {}, ""},
		{"duplicates are no violation", "a b a c b c", func(v *Verdict) { v.Duplicates = 3 }, ""},
		{"lost", "a c", func(v *Verdict) { v.Lost, v.Delivered = 1, 2 }, "did not arrive"},
		{"nothing arrived", "", func(v *Verdict) { v.Lost, v.Delivered, v.Keys = 3, 0, 0 }, "did not arrive"},
		{"rolled back", "a r b c", func(v *Verdict) { v.Phantom = 1 }, "was rolled back"},
		{"never published", "a b c x", func(v *Verdict) { v.Phantom = 1 }, "was never published"},
		{"without an id", "a b c -", func(v *Verdict) { v.Phantom = 1 }, "was never published"},
		{"changed payload", "a b! c", func(v *Verdict) { v.Phantom = 1 }, "another payload"},
		{"changed payload of a duplicate", "a b b! c", func(v *Verdict) { v.Phantom, v.Duplicates = 1, 1 }, "another payload"},
		{"changed key", "a b? c", func(v *Verdict) { v.Phantom = 1 }, `key "k"`},
		{"out of order", "b a c", func(v *Verdict) { v.OrderViolations = 1 }, `came after a later one of key "k"`},
		{"two out of order", "c a b", func(v *Verdict) { v.OrderViolations = 2 }, "came after a later one"},
		{"only first arrivals have an order", "a b c a", func(v *Verdict) { v.Duplicates = 1 }, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			want := clean
			c.want(&want)
			got := judged(c.arrivals)
			text := strings.Join(got.Findings, "\n")
			if !strings.Contains(text, c.says) || (c.says == "") != (text == "") {
				t.Errorf("findings %q, want %q", text, c.says)
			}
			if got.OK() != (c.says == "") {
				t.Errorf("OK %v", got.OK())
			}
			got.Findings = nil
			if fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("got %+v, want %+v", got, want)
			}
		})
	}
}

// judged commits a, b and c in this order, rolls r back, and lets the named ones arrive.
func judged(arrivals string) Verdict {
	l, ids := newLedger(), map[string]outbox.ID{"x": outbox.NewID()}
	for _, name := range []string{"a", "b", "r", "c"} {
		ids[name] = outbox.NewID()
		m := &outbox.Message{Topic: "t", Key: "k", Payload: []byte(name)}
		if name == "r" {
			l.rollBack(ids[name], m)
		} else {
			l.commit(ids[name], m)
		}
	}
	j := newJudge(l)
	for i, name := range strings.Fields(arrivals) {
		a := arrival{seq: uint64(i + 1), topic: "t", key: "k"}
		name, a.payload = name[:1], []byte(strings.TrimSuffix(name, "?"))
		if id, ok := ids[name]; ok {
			a.id = id.String()
		}
		if strings.HasSuffix(strings.Fields(arrivals)[i], "?") {
			a.key = "other"
		}
		j.arrive(a)
	}
	return j.end()
}

// TestJudgeKeyless: messages without a key have no order.
func TestJudgeKeyless(t *testing.T) {
	l := newLedger()
	first, second := outbox.NewID(), outbox.NewID()
	l.commit(first, &outbox.Message{Topic: "t"})
	l.commit(second, &outbox.Message{Topic: "t"})
	j := newJudge(l)
	j.arrive(arrival{id: second.String(), topic: "t"})
	j.arrive(arrival{id: first.String(), topic: "t"})
	if v := j.end(); !v.OK() || v.Delivered != 2 || v.Keys != 0 {
		t.Errorf("%+v", v)
	}
}

// TestFindingsBounded: a total loss is not told message by message.
func TestFindingsBounded(t *testing.T) {
	l := newLedger()
	for range 3 * maxFindings {
		l.commit(outbox.NewID(), &outbox.Message{Topic: "t"})
	}
	if v := newJudge(l).end(); v.Lost != 3*maxFindings || len(v.Findings) != maxFindings {
		t.Errorf("lost %d, findings %d", v.Lost, len(v.Findings))
	}
}
