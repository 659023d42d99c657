package pgstore

import (
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/outboxrelay/outbox"
)

// TestStandInIsTried: a relay that stands by and may not replicate says so at once, and when it may, that is forgotten.
func TestStandInIsTried(t *testing.T) {
	t.Parallel()
	_, url := ownServer(t, nil)
	conn := connect(t, url)
	exec(t, conn, `create role app login; grant usage on schema outbox to app; grant all on all tables in schema outbox to app;
		grant all on all sequences in schema outbox to app; grant execute on all functions in schema outbox to app`)
	first := newFollower(t, url, nil)
	second := newTestRelay(t, newStore(t, strings.Replace(url, "postgres@", "app@", 1), &Config{Engine: EngineWAL, Notify: NotifyOff}), ">")
	runStream(t, second.store)
	await(t, "it says what it lacks", func() bool {
		got := second.store.Streaming()
		return !got.On && strings.Contains(got.Problem, second.store.adviceReplication())
	})
	await(t, "a heartbeat tells it", func() bool {
		second.beat(t)
		status, err := second.store.WAL(t.Context())
		return err == nil && len(status.Relays) == 2 && status.Relays[0].Streams && !status.Relays[1].Streams &&
			status.Relays[1].Stream.State == stateStandingBy && strings.Contains(status.Relays[1].Stream.Problem, "may not replicate")
	})
	relays, err := first.store.Relays(t.Context())
	if err != nil || len(relays) != 2 || !relays[0].Streaming || relays[0].StreamProblem != "" || relays[1].Streaming || relays[1].StreamProblem == "" {
		t.Errorf("relays tells %+v, error %v", relays, err)
	}
	exec(t, conn, "alter role app replication")
	await(t, "the right has come", func() bool { return second.store.Streaming() == (outbox.Streaming{}) })
}

// TestWhoStreams: what relays tell is older than what the server knows.
func TestWhoStreams(t *testing.T) {
	report := func(state string, server int) WALRelay {
		return WALRelay{Live: true, Stream: StreamReport{State: state, ServerPID: server}}
	}
	lapsed := report(stateStreaming, 7)
	lapsed.Live = false
	for name, c := range map[string]struct {
		slot    *WALSlot
		relay   WALRelay
		streams bool
		state   string
	}{
		"it streams":           {&WALSlot{PID: 7}, report(stateStreaming, 7), true, stateStreaming},
		"it was killed":        {nil, report(stateStreaming, 7), false, stateCutOff},
		"another has the slot": {&WALSlot{PID: 8}, report(stateStreaming, 7), false, stateCutOff},
		"its lease is over":    {&WALSlot{PID: 7}, lapsed, false, stateStreaming},
		"it stands by":         {&WALSlot{PID: 7}, report(stateStandingBy, 0), false, stateStandingBy},
		"it polls":             {nil, report(statePolling, 0), false, statePolling},
	} {
		w := WALStatus{Slot: c.slot, Relays: []WALRelay{c.relay}}
		w.ask()
		if got := w.Relays[0]; got.Streams != c.streams || got.Stream.State != c.state || (got.Stream.State == stateCutOff) != (got.Stream.Problem != "") {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// TestStreamAdviceOfVersions: the server's words for a missing right have changed.
func TestStreamAdviceOfVersions(t *testing.T) {
	store := newStore(t, migratedDatabase(t), nil)
	for _, message := range []string{"must be superuser or replication role to start walsender", "permission denied to start WAL sender"} {
		if problem, advice := store.streamAdvice(&pgconn.PgError{Code: statePrivilege, Message: message}); advice != store.adviceReplication() {
			t.Errorf("%s: %s: %s", message, problem, advice)
		}
	}
}
