package main

import (
	"cmp"
	"os"
	"time"

	"github.com/outboxrelay/outbox"
	"github.com/outboxrelay/outbox/pgstore"
)

// statuszAbout is what does not change while the program runs.
type statuszAbout struct {
	Version   string    `json:"version"`
	Host      string    `json:"host"`
	PID       int       `json:"pid"`
	StartedAt time.Time `json:"started_at"`
	Schema    string    `json:"schema"`
}

func newStatuszAbout(c *config) statuszAbout {
	host, _ := os.Hostname() // a relay without a name is still a relay
	return statuszAbout{version(), host, os.Getpid(), utc(time.Now()), cmp.Or(c.store.Schema, pgstore.DefaultSchema)}
}

// statuszJSON is how this relay is doing, from memory: nothing is asked for it.
type statuszJSON struct {
	statuszAbout
	UptimeSeconds    float64          `json:"uptime_seconds"`
	Live             bool             `json:"live"`
	Ready            bool             `json:"ready"`
	Stopping         bool             `json:"stopping"`
	Problems         []string         `json:"problems"`
	Relay            string           `json:"relay,omitempty"`
	LeaseLeftSeconds float64          `json:"lease_left_seconds"`
	Destinations     []statuszLane    `json:"destinations"`
	Counters         map[string]int64 `json:"counters"`
	Streaming        *statuszStream   `json:"streaming"` // null: SQLite, which has no stream
	Outbox           *statuszOutbox   `json:"outbox"`    // null: another relay looks
}

// statuszStream is how the stream of the WAL engine is doing.
type statuszStream struct {
	On         bool    `json:"on"`
	LagSeconds float64 `json:"lag_seconds"`
	Buffered   int     `json:"buffered"`
	Problem    string  `json:"problem,omitempty"` // why it polls although it is to stream
}

type statuszLane struct {
	Name            string  `json:"name"`
	Slots           int     `json:"slots"`
	InFlight        int     `json:"in_flight"`
	Unsettled       int     `json:"unsettled"`
	ProgressSeconds float64 `json:"progress_seconds"` // since the last sign of work
	State           string  `json:"state"`
	Reason          string  `json:"reason,omitempty"`
}

// statuszOutbox is what this relay last saw of the outbox, for all relays.
type statuszOutbox struct {
	AgeSeconds            float64   `json:"age_seconds"`
	Ready                 depthJSON `json:"ready"`
	InFlight              int64     `json:"in_flight"`
	Retrying              depthJSON `json:"retrying"`
	Scheduled             depthJSON `json:"scheduled"`
	Dead                  depthJSON `json:"dead"`
	OldestEligibleSeconds float64   `json:"oldest_eligible_seconds"`
	BlockedKeys           depthJSON `json:"blocked_keys"`
	BlockedLongestSeconds float64   `json:"blocked_longest_seconds"`
	Unhandled             depthJSON `json:"unhandled"`
	Relays                int       `json:"relays"`
	SlotRetainedBytes     int64     `json:"slot_retained_bytes"`
	SlotUnconfirmedBytes  int64     `json:"slot_unconfirmed_bytes"`
}

func newStatusz(h outbox.Health, about statuszAbout) statuszJSON {
	j := statuszJSON{statuszAbout: about, UptimeSeconds: round(time.Since(about.StartedAt)), Live: h.Live, Ready: h.Ready, Stopping: h.Stopping,
		Problems: append([]string{}, h.Problems...), LeaseLeftSeconds: round(h.LeaseLeft), Destinations: []statuszLane{},
		Counters: countsJSON(h.Counts), Outbox: newStatuszOutbox(h.Sample)}
	if !h.Relay.IsZero() {
		j.Relay = h.Relay.String()
	}
	if s := h.Streaming; s != nil {
		j.Streaming = &statuszStream{s.On, round(s.Lag), s.Buffered, s.Problem}
	}
	for _, l := range h.Lanes {
		j.Destinations = append(j.Destinations, statuszLane{l.Destination, l.Slots, l.InFlight, l.Unsettled, round(l.Progress), l.Fault.State(), reasonOf(l.Fault)})
	}
	return j
}

func newStatuszOutbox(s *outbox.Sample) *statuszOutbox {
	if s == nil {
		return nil
	}
	return &statuszOutbox{round(time.Since(s.At)), newDepth(s.Ready), s.InFlight, newDepth(s.Retrying), newDepth(s.Scheduled), newDepth(s.Dead),
		round(s.OldestEligible), newDepth(s.HeldKeys), round(s.HeldLongest), newDepth(s.Unhandled), s.Relays, s.SlotRetained, s.SlotUnconfirmed}
}

// countsJSON are a relay's counters by the names that they have everywhere.
func countsJSON(n outbox.Counts) map[string]int64 {
	return map[string]int64{"delivered": n.Delivered, "dropped": n.Dropped, "expired": n.Expired,
		"retried": n.Retried, "dead": n.Dead, "given_back": n.GivenBack, "fenced": n.Fenced}
}
