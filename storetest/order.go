package storetest

import (
	"fmt"
	"slices"
	"time"

	"github.com/outboxrelay/outbox"
)

func orderCases() []Case {
	return []Case{
		{"two claims never hold messages of one key", OrderPerKey, oneClaimPerKey},
		{"a hot key goes in long runs", Prompt, hotKeyInOneClaim},
		{"a run that is cut goes on when it is settled", OrderPerKey, cutRunGoesOn},
		{"an older message that commits late waits for the younger one in flight, then goes first", OrderPerKey, lateCommit},
		{"an older head far below everything joins", OrderPerKey, olderHeadJoins},
		{"a scheduled message holds nothing before its time", Prompt, scheduledHoldsNothing},
		{"a scheduled message that becomes due waits for the one in flight", OrderPerKey, dueUnderAFlight},
		{"a scheduled message takes its place when it is due", OrderPerKey, dueTakesItsPlace},
		{"a dead relay's messages keep their place", OrderPerKey, lapsedKeepsPlace},
		{"messages without a key do not wait for each other", Prompt, noKeyNoOrder},
	}
}

// run is n messages of key k, labelled from 0.
func run(n int) (ms []outbox.Message, labels []string) {
	for i := range n {
		labels = append(labels, fmt.Sprintf("%03d", i))
		ms = append(ms, msg("a", "k", labels[i]))
	}
	return ms, labels
}

func oneClaimPerKey(e *env) {
	r, other := e.relay(), e.relay()
	ms, want := run(4)
	e.publish(ms...)
	ds := r.take(2, limit(2))
	e.equal("claimed", labels(ds), want[:2])
	other.takesNothing()
	r.takesNothing()
	r.deliver(ds[0])
	other.takesNothing()
	r.deliver(ds[1])
	e.equal("delivered by the other", other.drain(2), want[2:])
}

func hotKeyInOneClaim(e *env) {
	r := e.relay()
	ms, want := run(10)
	e.publish(ms...)
	claims := r.claimUntil(10)
	e.equal("claims", len(claims), 1)
	e.equal("run", labels(claims[0].Deliveries), want)
}

func cutRunGoesOn(e *env) {
	r := e.relay()
	ms, want := run(10)
	e.publish(ms...)
	for i := 0; i < 9; i += 3 {
		ds := r.take(3, limit(3))
		e.equal("run", labels(ds), want[i:i+3])
		r.takesNothing(limit(3))
		r.deliver(ds...)
	}
	r.takes(want[9])
}

func lateCommit(e *env) {
	r, other := e.relay(), e.relay()
	_, appear := e.late(msg("a", "k", "older"))
	e.publish(msg("a", "k", "younger"))
	ds := r.takes("younger")
	appear(r, other)
	e.publish(msg("a", "k", "youngest"))
	other.takesNothing()
	r.takesNothing()
	r.deliver(ds...)
	e.equal("delivered", other.drain(2), []string{"older", "youngest"})
}

func olderHeadJoins(e *env) {
	r := e.relay()
	_, appear := e.late(msg("a", "k", "000"))
	for range 3 {
		e.publish(slices.Repeat([]outbox.Message{msg("a", "", "-")}, 100)...)
	}
	r.drain(300)
	ms, want := run(3)
	e.publish(ms[1:]...)
	appear(r)
	e.equal("delivered", r.drain(3), want)
}

func scheduledHoldsNothing(e *env) {
	r := e.relay()
	e.publish(outbox.Message{Topic: "a", Key: "k", Payload: []byte("scheduled"), Delay: time.Hour})
	e.publish(msg("a", "k", "ready"))
	r.deliver(r.takes("ready")...)
	r.takesNothing()
}

func dueUnderAFlight(e *env) {
	r, other := e.relay(), e.relay()
	e.publish(outbox.Message{Topic: "a", Key: "k", Payload: []byte("scheduled"), Delay: 10 * time.Second})
	e.publish(msg("a", "k", "ready"))
	ds := r.takes("ready")
	e.advance(11*time.Second, r, other)
	other.takesNothing()
	r.takesNothing()
	r.deliver(ds...)
	other.takes("scheduled")
}

func dueTakesItsPlace(e *env) {
	r := e.relay()
	e.publish(msg("a", "k", "1"))
	e.publish(outbox.Message{Topic: "a", Key: "k", Payload: []byte("2"), Delay: 10 * time.Second})
	e.publish(msg("a", "k", "3"))
	ds := r.takes("1", "3")
	r.settled(retried(ds[0], 10*time.Second), outcome(outbox.Unlisted, ds[1]))
	e.advance(11*time.Second, r)
	e.equal("delivered", r.drain(3), []string{"1", "2", "3"})
}

func lapsedKeepsPlace(e *env) {
	r, other := e.relay(), e.relay()
	e.publish(msg("a", "k", "1"), msg("a", "k", "2"))
	r.takes("1", "2")
	e.publish(msg("a", "k", "3"))
	other.takesNothing()
	e.lapse(other)
	e.equal("delivered", other.drain(3), []string{"1", "2", "3"})
}

func noKeyNoOrder(e *env) {
	r, other := e.relay(), e.relay()
	_, appear := e.late(msg("a", "", "late"))
	e.publish(msg("a", "", "1"), msg("a", "", "2"))
	first := r.take(1, limit(1))
	second := other.take(1)
	e.equal("claimed", sorted(append(labels(first), labels(second)...)), []string{"1", "2"})
	appear(r, other)
	other.takes("late")
}
