package pgstore

import (
	"encoding/json"
	"fmt"
	"time"
)

// sightings are the relays whose lease lies too far ahead, because the database's clock was put back, by id. A relay believes its lease for
// less than its length after a heartbeat: one that has been seen without another for that long has lapsed, whatever the clock says. By
// the monotonic clock: two heartbeats may follow each other at once (TestLeaseAheadIsWatchedForALease).
type sightings map[string]sighting

type sighting struct {
	beat  int64
	lease time.Duration
	since time.Time
}

// see takes over what a heartbeat was answered.
func (s sightings) see(answer []byte, now time.Time) (sightings, error) {
	ahead := map[string][2]int64{} // beat, microseconds of the lease
	if answer != nil {
		if err := json.Unmarshal(answer, &ahead); err != nil {
			return nil, fmt.Errorf("decode leases too far ahead: %w", err)
		}
	}
	seen := make(sightings, len(ahead))
	for id, a := range ahead {
		before, known := s[id]
		if !known || before.beat != a[0] {
			before = sighting{a[0], time.Duration(a[1]) * time.Microsecond, now}
		}
		seen[id] = before
	}
	return seen, nil
}

// lapsed are the beats of those that have not moved for a lease, as an argument; null: none.
func (s sightings) lapsed(now time.Time) (any, error) {
	beats := map[string]int64{}
	for id, seen := range s {
		if now.Sub(seen.since) >= seen.lease {
			beats[id] = seen.beat
		}
	}
	if len(beats) == 0 {
		return nil, nil
	}
	text, err := json.Marshal(beats)
	if err != nil {
		return nil, fmt.Errorf("encode lapsed relays: %w", err)
	}
	return string(text), nil
}
