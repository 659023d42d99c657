package storetest

import (
	"strings"
	"unicode/utf8"

	"github.com/outboxrelay/outbox"
)

func settleCases() []Case {
	return []Case{
		{"delivered, dropped and expired messages are gone", NothingLost, endsAreGone},
		{"a repeated settlement is recognised", NoDouble, repeatedSettle},
		{"a settlement of many claims is answered one by one", NoDouble, mixedSettle},
		{"a dead message frees its key and keeps its error", NothingLost, diedFreesKey},
		{"an error text is made storable", NothingLost, textIsMadeStorable},
	}
}

func endsAreGone(e *env) {
	r := e.relay()
	e.publish(msg("a", "", "1"), msg("a", "k", "2"), msg("a", "", "3"), msg("a", "k", "4"))
	ds := r.take(4)
	e.equal("while claimed", e.counts().Claimed, 4)
	dropped := outcome(outbox.Dropped, ds[1])
	dropped.Text = "a duplicate"
	r.settled(outcome(outbox.Delivered, ds[0]), dropped)
	e.equal("between", e.counts().Claimed, 2)
	r.settled(outcome(outbox.Expired, ds[2]), outcome(outbox.Delivered, ds[3]))
	e.equal("what is left", e.counts(), Counts{})
	e.relay().takesNothing()
}

func repeatedSettle(e *env) {
	r := e.relay()
	e.publish(msg("a", "", "1"), msg("a", "k", "2"), msg("a", "", "3"))
	ds := r.take(3)
	before := []outbox.Settled{outbox.SettledBefore}
	for i, d := range ds {
		kind := []outbox.OutcomeKind{outbox.Delivered, outbox.Died, outbox.Delivered}[i]
		r.settled(outcome(kind, d))
		e.equal("answer to the repetition", r.settle(outcome(kind, d)), before)
	}
	for _, d := range ds {
		e.equal("answer when the claim is gone", r.settle(outcome(outbox.Delivered, d)), before)
	}
	e.equal("what is left", e.counts(), Counts{Dead: 1})
}

func mixedSettle(e *env) {
	r, other := e.relay(), e.relay()
	e.publish(msg("a", "", "1"))
	first := r.takes("1")[0]
	e.publish(msg("a", "", "2"))
	second := r.takes("2")[0]
	e.publish(msg("a", "", "3"))
	third := r.takes("3")[0]
	r.settled(outcome(outbox.Delivered, second), outcome(outbox.GivenBack, third))
	other.takes("3")
	e.equal("answers",
		r.settle(outcome(outbox.Delivered, third), outcome(outbox.Delivered, second), outcome(outbox.Delivered, first)),
		[]outbox.Settled{outbox.SettledFenced, outbox.SettledBefore, outbox.SettledNow})
	e.equal("what is left", e.counts(), Counts{Ready: 1, Claimed: 1, Claims: 1})
}

func diedFreesKey(e *env) {
	r := e.relay()
	receipts := e.publish(msg("a", "k", "1"), msg("a", "k", "2"))
	ds := r.takes("1", "2")
	o := outcome(outbox.Died, ds[0])
	o.Attempts, o.Class, o.Text = 3, "permanent", "no such customer: größe"
	r.settled(o, outcome(outbox.GivenBack, ds[1]))
	r.deliver(r.takes("2")...)
	e.equal("dead letters", e.dead(),
		[]Dead{{ID: receipts[0].ID, Attempts: 3, Class: "permanent", Text: "no such customer: größe"}})
	e.equal("what is left", e.counts(), Counts{Dead: 1})
	e.publish(msg("a", "k", "3"))
	r.takes("3")
}

func textIsMadeStorable(e *env) {
	r := e.relay()
	e.publish(msg("a", "k", "1"))
	bad := "begin\x00middle\xff\xc3 " + strings.Repeat("é🙂", 1000)
	o := retried(r.takes("1")[0], 0)
	o.Text = bad
	r.settled(o)
	o = outcome(outbox.Died, r.takes("1")[0])
	o.Text = bad
	r.settled(o)
	text := e.dead()[0].Text
	switch {
	case !utf8.ValidString(text) || strings.Contains(text, "\x00"):
		e.Errorf("the text is not storable: %q", text)
	case len(text) > 2000 || len(text) < 1990:
		e.Errorf("the text was cut to %d bytes, want 2000", len(text))
	case !strings.HasPrefix(text, "begin") || !strings.Contains(text, "middle"):
		e.Errorf("the text is not kept: %q", text[:40])
	}
}
