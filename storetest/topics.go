package storetest

import "github.com/outboxrelay/outbox"

func topicCases() []Case {
	return []Case{
		{"only the lane's topics are claimed, the first pattern decides", AtLeastOnce, onlyTheLanesTopics},
		{"each lane of a relay takes its own topics", AtLeastOnce, lanesTakeTheirOwn},
		{"closed topics are not claimed but hold their keys", OrderPerKey, closedTopicsHold},
		{"topics that nobody handles hold nothing", AtLeastOnce, unhandledHoldNothing},
		{"a key goes over the topics of a destination, wherever they are handled", OrderPerKey, keyAcrossTopics},
		{"other destinations do not hold a key", AtLeastOnce, otherDestinationsHoldNothing},
		{"without order, keys hold nothing", AtLeastOnce, orderNone},
	}
}

func onlyTheLanesTopics(e *env) {
	set := outbox.TopicSet{{Pattern: "a.*.x", In: false}, {Pattern: "a.>", In: true}, {Pattern: "b", In: true}}
	r := e.relay(outbox.LaneInfo{Destination: defaultLane, Topics: set})
	for _, topic := range []string{"a", "a.b", "a.b.x", "a.b.c.x", "b", "b.c", "ab", "A.b"} {
		e.publish(msg(topic, "", topic))
	}
	e.equal("claimed", sorted(labels(r.take(3))), []string{"a.b", "a.b.c.x", "b"})
	r.takesNothing()
}

func lanesTakeTheirOwn(e *env) {
	r := e.relay(lane("one", "a"), lane("two", "b"))
	e.publish(msg("a", "", "for one"), msg("b", "", "for two"))
	e.equal("lane two", labels(r.take(1, on("two"))), []string{"for two"})
	r.takesNothing(on("two"))
	e.equal("lane one", labels(r.take(1, on("one"))), []string{"for one"})
	r.takesNothing(on("one"))
}

func closedTopicsHold(e *env) {
	r := e.relay()
	e.publish(
		msg("shut", "k", "1"), msg("open", "k", "2"), msg("open", "other", "3"), msg("shut", "", "4"),
	)
	e.equal("claimed while closed", labels(r.take(1, closed("shut"))), []string{"3"})
	r.takesNothing(closed("shut"))
	ds := r.take(3)
	e.equal("claimed after", sorted(labels(ds)), []string{"1", "2", "4"})
}

func unhandledHoldNothing(e *env) {
	r := e.relay(lane(defaultLane, "a"))
	e.publish(msg("nobody", "k", "unhandled"), msg("a", "k", "handled"))
	r.deliver(r.takes("handled")...)
	r.takesNothing()
	e.equal("what is left", e.counts(), Counts{Ready: 1})
}

func keyAcrossTopics(e *env) {
	a, b := e.relay(lane(defaultLane, "a")), e.relay(lane(defaultLane, "b"))
	e.publish(msg("a", "k", "1"), msg("b", "k", "2"), msg("a", "k", "3"))
	b.takesNothing()
	first := a.takes("1")
	b.takesNothing()
	a.deliver(first...)
	a.takesNothing()
	second := b.takes("2")
	a.takesNothing()
	b.settled(retried(second[0], lease/4))
	a.takesNothing()
	e.advance(lease/2, a, b)
	b.deliver(b.takes("2")...)
	a.takes("3")
}

func otherDestinationsHoldNothing(e *env) {
	r, other := e.relay(lane("one", "a")), e.relay(lane("two", "b"))
	e.publish(msg("a", "k", "for one"), msg("b", "k", "for two"))
	d := r.takes("for one")[0]
	other.takes("for two")
	r.settled(retried(d, lease))
	e.publish(msg("b", "other", "next for two"), msg("b", "k", "last for two"))
	other.takes("next for two")
}

func orderNone(e *env) {
	unordered := lane(defaultLane, ">")
	unordered.Unordered = topics("free")
	r, other := e.relay(unordered), e.relay(unordered)
	e.publish(msg("free", "k", "1"), msg("free", "k", "2"))
	first := r.take(1, limit(1))
	second := other.take(1)
	e.equal("claimed", sorted(append(labels(first), labels(second)...)), []string{"1", "2"})
	r.settled(retried(first[0], lease))
	e.publish(msg("free", "k", "3"), msg("ordered", "k", "4"))
	e.equal("key", e.keysOf(other.take(2)), []string{"k", "k"})
}

func (e *env) keysOf(ds []*outbox.Delivery) []string {
	keys := make([]string, len(ds))
	for i, d := range ds {
		keys[i] = d.Key
	}
	return keys
}
