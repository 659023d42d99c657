package storetest

import (
	"fmt"

	"github.com/outboxrelay/outbox"
)

func limitCases() []Case {
	return []Case{
		{"a claim takes at most its limit and says that there is more", Bounded, countLimit},
		{"a claim takes at most its bytes", Bounded, bytesLimit},
		{"a message beyond the bytes is taken only by an empty lane", Bounded, oversizedMessage},
		{"no message is claimed when there is none", Bounded, nothingToClaim},
	}
}

func countLimit(e *env) {
	r := e.relay()
	for i := range 5 {
		e.publish(msg("a", "", fmt.Sprint(i)))
	}
	var all []string
	for patient := e.patiently(); len(all) < 5; patient() {
		batch := r.claim(limit(2))
		got := labels(deliveries(batch.Claims))
		all = append(all, got...)
		switch {
		case len(got) > 2:
			e.Fatalf("claimed %q with a limit of 2", got)
		case len(all) < 5 && !batch.More:
			e.Fatalf("claimed %q of 5 and there is no more", all)
		}
	}
	e.equal("claimed", sorted(all), []string{"0", "1", "2", "3", "4"})
	r.takesNothing()
}

func bytesLimit(e *env) {
	r := e.relay()
	for range 5 {
		e.publish(outbox.Message{Topic: "a", Payload: make([]byte, 400)})
	}
	patient := e.patiently()
	for taken := 0; taken < 5; patient() {
		batch := r.claim(size(1000))
		got := len(deliveries(batch.Claims))
		taken += got
		switch {
		case got > 2:
			e.Fatalf("claimed %d bytes with a limit of 1000", got*400)
		case taken < 5 && !batch.More:
			e.Fatalf("claimed %d of 5 and there is no more", taken)
		}
	}
}

func oversizedMessage(e *env) {
	r := e.relay()
	e.publish(outbox.Message{Topic: "a", Key: "big", Payload: make([]byte, 5000)})
	r.takesNothing(size(1000))
	if batch := r.claim(size(1000)); !batch.Starved {
		e.Fatalf("a message that does not fit is not told of: %+v", batch)
	}
	r.take(1, size(1000), oversized)
	e.publish(msg("a", "", "small"), outbox.Message{Topic: "a", Payload: make([]byte, 5000)}, msg("a", "", "tiny"))
	patient := e.patiently()
	for taken := 0; taken < 3; patient() {
		batch := r.claim(size(1000), oversized)
		got := deliveries(batch.Claims)
		taken += len(got)
		bytes := 0
		for _, d := range got {
			bytes += len(d.Payload)
		}
		if len(got) > 1 && bytes > 1000 {
			e.Fatalf("claimed %d messages of %d bytes with a limit of 1000", len(got), bytes)
		}
	}
}

func nothingToClaim(e *env) {
	r := e.relay()
	r.takesNothing()
	batch := r.claim()
	e.equal("batch", batch, outbox.Batch{})
	e.equal("claims", e.counts().Claims, 0)
}
