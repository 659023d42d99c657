package demo

import (
	"crypto/sha256"
	"fmt"

	"github.com/outboxrelay/outbox"
)

// Verdict compares what was delivered with what was committed.
type Verdict struct {
	Committed, RolledBack int
	Delivered             int // different committed messages that arrived
	Keys                  int // different keys among those
	Lost                  int // committed, and did not arrive
	Phantom               int // arrived, and was rolled back, never published, or published with other content
	Duplicates            int // arrivals beyond the first
	OrderViolations       int // first arrivals after a message of the same key that was published later
	Findings              []string
}

// maxFindings is how many violations are described.
const maxFindings = 10

// OK reports whether nothing was lost, invented or out of order.
func (v *Verdict) OK() bool { return v.Lost+v.Phantom+v.OrderViolations == 0 }

func (v *Verdict) find(format string, args ...any) {
	if len(v.Findings) < maxFindings {
		v.Findings = append(v.Findings, fmt.Sprintf(format, args...))
	}
}

// judge takes the arrivals in the order of the stream. The application has ended.
type judge struct {
	Verdict
	records map[outbox.ID]*record
	latest  map[string]int // the latest place of each key so far
}

func newJudge(l *ledger) *judge {
	return &judge{records: l.records, latest: map[string]int{}}
}

// arrival is a message of the stream.
type arrival struct {
	seq        uint64 // in the stream
	id         string
	topic, key string
	payload    []byte
}

func (j *judge) arrive(a arrival) {
	id, err := outbox.ParseID(a.id)
	r := j.records[id]
	switch {
	case err != nil || r == nil:
		j.phantom(a, "was never published")
	case r.rolledBack:
		j.phantom(a, "was rolled back")
	case r.topic != a.topic || r.key != a.key:
		j.phantom(a, fmt.Sprintf("was published with topic %q and key %q", r.topic, r.key))
	case r.payload != sha256.Sum256(a.payload):
		j.phantom(a, "was published with another payload")
	}
	if r == nil || r.rolledBack {
		return
	}
	if r.arrived++; r.arrived > 1 {
		j.Duplicates++
		return
	}
	j.Delivered++
	j.first(a, r)
}

func (j *judge) phantom(a arrival, why string) {
	j.Phantom++
	j.find("message %d of the stream (id %q, topic %q, key %q) %s", a.seq, a.id, a.topic, a.key, why)
}

// first checks the order of a message's first arrival.
func (j *judge) first(a arrival, r *record) {
	if r.key == "" {
		return
	}
	if r.place < j.latest[r.key] {
		j.OrderViolations++
		j.find("message %d of the stream (id %s) came after a later one of key %q", a.seq, a.id, a.key)
		return
	}
	j.latest[r.key] = r.place
}

// end counts what did not arrive.
func (j *judge) end() Verdict {
	j.Keys = len(j.latest)
	for id, r := range j.records {
		switch {
		case r.rolledBack:
			j.RolledBack++
			continue
		case r.arrived == 0:
			j.Lost++
			j.find("message %s (topic %q, key %q) was committed and did not arrive", id, r.topic, r.key)
		}
		j.Committed++
	}
	return j.Verdict
}
