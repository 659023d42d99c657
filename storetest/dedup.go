package storetest

import (
	"errors"

	"github.com/outboxrelay/outbox"
)

func dedupCases() []Case {
	return []Case{
		{"receipts name the ids, own ids are kept", NothingLost, receiptsNameIDs},
		{"an id that is there already is refused", Atomic, duplicateIDRefused},
		{"a dedup key keeps out duplicates while its message is there", Atomic, dedupKeepsOut},
		{"a dedup key of a dead message still keeps out duplicates", Atomic, dedupOfTheDead},
		{"a rolled back dedup key is free", Atomic, dedupRolledBack},
		{"a dedup key belongs to its topic", Atomic, dedupPerTopic},
		{"maintenance removes free dedup keys only, in portions", Bounded, maintainDedup},
	}
}

func receiptsNameIDs(e *env) {
	own := outbox.NewID()
	receipts := e.publish(msg("a", "", "one"), outbox.Message{Topic: "a", ID: own, Payload: []byte("own")})
	if receipts[0].ID.IsZero() || receipts[0].Duplicate {
		e.Errorf("receipt %+v", receipts[0])
	}
	e.equal("receipt of the own id", receipts[1], outbox.Receipt{ID: own})
	for _, d := range e.relay().take(2) {
		want := receipts[0].ID
		if string(d.Payload) == "own" {
			want = own
		}
		e.equal("id", d.ID, want)
	}
}

func duplicateIDRefused(e *env) {
	m := outbox.Message{Topic: "a", ID: outbox.NewID(), Payload: []byte("own")}
	e.publish(m)
	m.Topic = "b"
	tx := e.begin()
	if _, err := tx.Publish(e.ctx, m); !errors.Is(err, outbox.ErrDuplicateID) {
		e.Fatalf("publishing the id twice returned %v, want ErrDuplicateID", err)
	}
	e.rollback(tx)
	r := e.relay()
	r.deliver(r.takes("own")...)
	e.publish(m)
	r.takes("own")
}

// keyed is a message with a dedup key.
func keyed(topic, dedupKey, label string) outbox.Message {
	return outbox.Message{Topic: topic, DedupKey: dedupKey, Payload: []byte(label)}
}

// duplicate publishes and demands that it is, or is not, a duplicate.
func (e *env) duplicate(m outbox.Message, want bool) {
	e.Helper()
	if receipt := e.publish(m)[0]; receipt.Duplicate != want || receipt.ID.IsZero() != want {
		e.Fatalf("receipt %+v, want duplicate: %v", receipt, want)
	}
}

func dedupKeepsOut(e *env) {
	r := e.relay()
	receipts := e.publish(keyed("a", "k", "first"), keyed("a", "k", "again"), msg("a", "", "other"))
	e.equal("duplicates", []bool{receipts[0].Duplicate, receipts[1].Duplicate, receipts[2].Duplicate},
		[]bool{false, true, false})
	e.duplicate(keyed("a", "k", "later"), true)
	ds := r.take(2)
	e.equal("claimed", sorted(labels(ds)), []string{"first", "other"})
	e.duplicate(keyed("a", "k", "while claimed"), true)
	r.deliver(ds...)
	e.duplicate(keyed("a", "k", "free"), false)
	r.takes("free")
}

func dedupOfTheDead(e *env) {
	r := e.relay()
	e.duplicate(keyed("a", "k", "first"), false)
	r.settled(outcomes(outbox.Retried, r.takes("first")...)...)
	e.duplicate(keyed("a", "k", "while retried"), true)
	r.settled(outcomes(outbox.Died, r.takes("first")...)...)
	e.duplicate(keyed("a", "k", "while dead"), true)
	r.takesNothing()
}

func dedupRolledBack(e *env) {
	tx := e.begin(keyed("a", "k", "never"))
	e.rollback(tx)
	e.duplicate(keyed("a", "k", "one"), false)
	e.relay().takes("one")
}

func dedupPerTopic(e *env) {
	e.duplicate(keyed("a", "k", "one"), false)
	e.duplicate(keyed("b", "k", "two"), false)
	e.duplicate(keyed("a", "K", "three"), false)
	e.equal("claimed", sorted(labels(e.relay().take(3))), []string{"one", "three", "two"})
}

func maintainDedup(e *env) {
	r := e.relay()
	e.publish(keyed("a", "1", "1"), keyed("a", "2", "2"), keyed("a", "3", "3"))
	r.deliver(r.take(3)...)
	e.publish(keyed("a", "held", "held"))
	for _, want := range []outbox.MaintainReport{
		{DedupExpired: 2, More: true}, {DedupExpired: 1}, {},
	} {
		got, err := r.store.Maintain(e.ctx, outbox.MaintainQuery{Limit: 2})
		e.must(err)
		e.equal("report", got, want)
	}
	e.duplicate(keyed("a", "held", "again"), true)
}
