package history

import (
	"bytes"
	"fmt"
	"testing"
)

// bigHistory is what 200,000 messages leave behind when all goes well: publishers and relays as a test has them.
func bigHistory(keys int) []Event {
	var events []Event
	at := int64(0)
	add := func(process string, e Event) {
		at += 1000
		e.At, e.Process = at, process
		events = append(events, e)
	}
	add("relay", Event{Kind: Leased, Relay: "r", Until: 1 << 60})
	const batch = 500
	for first := int64(0); first < 200_000; first += batch {
		messages := make([]Event, batch)
		for i := range messages {
			seq := first + int64(i) + 1
			messages[i] = Event{Message: fmt.Sprintf("0190f3a0-0000-7000-8000-%012d", seq), Seq: seq, Topic: "orders.created", Key: fmt.Sprintf("key-%d", seq%int64(keys)), Payload: Hash(nil)}
		}
		for _, kind := range []Kind{Publishing, Committed} {
			for _, e := range messages {
				e.Kind = kind
				add("publisher", e)
			}
		}
		add("relay", Event{Kind: Claimed, Relay: "r", Claim: first})
		for _, e := range messages {
			e.Relay, e.Destination, e.Claim, e.Outcome = "r", "handlers", first, OutcomeDelivered
			for _, kind := range []Kind{Begun, Accepted, Settled} {
				e.Kind = kind
				add("relay", e)
			}
		}
	}
	return events
}

func BenchmarkCheck(b *testing.B) {
	for _, keys := range []int{1, 10_000} {
		b.Run(fmt.Sprintf("keys=%d", keys), func(b *testing.B) {
			events := bigHistory(keys)
			for b.Loop() {
				if err := Check(events, Options{}).Err(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkRead(b *testing.B) {
	data := logOf(b, bigHistory(10_000))
	b.SetBytes(int64(len(data)))
	for b.Loop() {
		if _, err := Read(bytes.NewReader(data)); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkAppend(b *testing.B) {
	log, err := Open(b.TempDir(), "p")
	if err != nil {
		b.Fatal(err)
	}
	defer log.Close()
	e := Event{Kind: Begun, Message: "0190f3a0-0000-7000-8000-000000000001", Seq: 1, Topic: "orders.created", Key: "key-1", Payload: Hash(nil), Relay: "r", Destination: "d", Claim: 1}
	for b.Loop() {
		if err := log.Append(e); err != nil {
			b.Fatal(err)
		}
	}
}
