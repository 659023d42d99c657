package main

import (
	"time"

	"github.com/outboxrelay/outbox"
)

// relayRates remember what the heartbeats of relays told.
type relayRates map[outbox.ID]heartbeat

type heartbeat struct {
	at                 time.Time
	delivered, latency int64
	rate               relayRate
	known              bool // there are two heartbeats to tell a rate by
}

// relayRate is how fast a relay works.
type relayRate struct {
	perSecond float64
	latency   time.Duration // mean; zero: nothing was delivered
}

// sameBeat is how far the times of one heartbeat may differ, as two looks compute them.
const sameBeat = 500 * time.Millisecond

// next tells the rates between the last two heartbeats of each relay that is still there.
func (rs relayRates) next(now time.Time, relays []outbox.RelayStatus) map[outbox.ID]relayRate {
	rates, seen := map[outbox.ID]relayRate{}, map[outbox.ID]bool{}
	for _, r := range relays {
		seen[r.ID] = true
		h := heartbeat{at: now.Add(-r.Seen), delivered: r.Counters["delivered"], latency: r.Counters["latency_microseconds"]}
		before, ok := rs[r.ID]
		switch took := h.at.Sub(before.at); {
		case !ok:
			rs[r.ID] = h
		case took > sameBeat:
			h.rate, h.known = rateBetween(before, h, took), true
			rs[r.ID] = h
		}
		if last := rs[r.ID]; last.known {
			rates[r.ID] = last.rate
		}
	}
	for id := range rs {
		if !seen[id] {
			delete(rs, id)
		}
	}
	return rates
}

func rateBetween(before, h heartbeat, took time.Duration) relayRate {
	delivered := max(h.delivered-before.delivered, 0)
	rate := relayRate{perSecond: float64(delivered) / took.Seconds()}
	if delivered > 0 {
		rate.latency = time.Duration(max(h.latency-before.latency, 0)/delivered) * time.Microsecond
	}
	return rate
}
