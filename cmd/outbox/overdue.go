package main

import (
	"fmt"
	"time"

	"github.com/outboxrelay/outbox"
)

// aboutRelays is what is wrong with relays that live, or live as far as their leases tell.
func aboutRelays(st *outbox.Status) (list []warning) {
	for i := range st.Relays {
		r := &st.Relays[i]
		if late := r.Overdue(); late > 0 {
			list = append(list, overdueWarning(st, r, late))
		}
		for _, text := range troublesOf(r) {
			list = append(list, warning{text, "outbox relays"})
		}
		if r.Live && r.StreamProblem != "" {
			list = append(list, warning{fmt.Sprintf("relay %s/pid %d cannot stream: %s", r.Host, r.PID, r.StreamProblem), "outbox wal"})
		}
	}
	return list
}

// overdueWarning tells since when a relay is silent, and when others get what it holds: nothing else tells between its end and that of its
// lease.
func overdueWarning(st *outbox.Status, r *outbox.RelayStatus, late time.Duration) warning {
	text := fmt.Sprintf("relay %s/pid %d: its heartbeat is overdue since %s; unless it comes ", r.Host, r.PID, clock(st.At.Add(-late)))
	back := clock(st.At.Add(r.LeaseLeft))
	if heard(st) == 0 {
		return warning{text + fmt.Sprintf("its lease ends at %s, and there is no other relay: nothing is delivered", back), "outbox run"}
	}
	if r.InFlight == 0 {
		return warning{text + fmt.Sprintf("its lease ends at %s; it holds no message", back), "outbox relays"}
	}
	return warning{text + fmt.Sprintf("others get the %s that it holds at %s", messages(r.InFlight), back), "outbox relays"}
}

// heard counts the live relays whose heartbeat is not overdue.
func heard(st *outbox.Status) (n int) {
	for i := range st.Relays {
		if r := &st.Relays[i]; r.Live && r.Overdue() == 0 {
			n++
		}
	}
	return n
}

// clock is a time of day, by the database's clock.
func clock(t time.Time) string { return utc(t).Format("15:04:05Z") }
