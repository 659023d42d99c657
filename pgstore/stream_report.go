package pgstore

import (
	"encoding/json"
	"time"

	"github.com/outboxrelay/outbox"
)

// StreamReport is what a relay with the WAL engine tells of its stream with each heartbeat, as it is stored.
type StreamReport struct {
	State      string       `json:"state"` // streaming; standing by, while another relay streams; polling; for others than the relay also cut off
	Since      time.Time    `json:"since,omitzero"`
	Problem    string       `json:"problem,omitempty"`    // why it polls, or could not take over
	ServerPID  int          `json:"server_pid,omitempty"` // of the server's process that it streams from, which has the slot
	LagSeconds float64      `json:"lag_seconds"`          // from a commit to its arrival, as heartbeats through the WAL measure it
	Buffered   int          `json:"buffered"`             // messages that have arrived and were not claimed yet
	Lanes      []LaneReport `json:"lanes"`
}

// LaneReport is what the stream means to one lane.
type LaneReport struct {
	Destination string    `json:"destination"`
	State       string    `json:"state"` // following the stream; catching up with it, by windows over the table; polling
	Since       time.Time `json:"since,omitzero"`
	Why         string    `json:"why,omitempty"` // it last had to catch up, or polls
	Buffered    int       `json:"buffered"`
}

// Names of states in a StreamReport.
const (
	stateStreaming  = "streaming"
	stateStandingBy = "standing by"
	statePolling    = "polling"
	// stateCutOff is of a relay that has told last that it streams, and has the slot no more: it was killed, or will say why.
	stateCutOff = "cut off"
)

// report tells whether this store streams, and its report as JSON.
func (st *stream) report() (streaming bool, text string) {
	if st.store.cfg.Engine != EngineWAL {
		return false, "{}"
	}
	r := st.now()
	r.Lanes = st.store.feedReports()
	for _, l := range r.Lanes {
		r.Buffered += l.Buffered
	}
	streaming = r.State == stateStreaming
	b, err := json.Marshal(r)
	if err != nil {
		return streaming, "{}"
	}
	return streaming, string(b)
}

// now is the report without the lanes.
func (st *stream) now() StreamReport {
	st.mu.Lock()
	defer st.mu.Unlock()
	r := StreamReport{State: statePolling, Since: st.since, Problem: st.problem}
	switch {
	case st.beats != nil:
		r.State, r.LagSeconds, r.ServerPID = stateStreaming, st.beats.behind(time.Now()).Seconds(), st.server
	case st.problem == errOtherStreams.Error():
		r.State, r.Problem = stateStandingBy, st.unfit
	}
	return r
}

var _ outbox.Streamer = (*Store)(nil)

// Streaming tells how the stream of the WAL engine is doing; see outbox.Streamer.
func (s *Store) Streaming() outbox.Streaming {
	if s.cfg.Engine != EngineWAL {
		return outbox.Streaming{}
	}
	r := s.stream.now()
	now := outbox.Streaming{On: r.State == stateStreaming, Lag: time.Duration(r.LagSeconds * float64(time.Second)), Problem: r.Problem}
	for _, l := range s.feedReports() {
		now.Buffered += l.Buffered
	}
	return now
}

func (s *Store) feedReports() (reports []LaneReport) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.relays {
		r.mu.Lock()
		for destination, l := range r.lanes {
			reports = append(reports, l.feedReport(destination))
		}
		r.mu.Unlock()
	}
	return reports
}

func (l *lane) feedReport(destination string) LaneReport {
	l.mu.Lock()
	defer l.mu.Unlock()
	return LaneReport{destination, l.feed.state.String(), l.feed.since, l.feed.why, len(l.feed.queue)}
}
