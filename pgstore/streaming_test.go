package pgstore

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/outboxrelay/outbox"
)

// TestStreamingIsTold: who streams, who stands by, what is buffered and what the server keeps for it.
func TestStreamingIsTold(t *testing.T) {
	t.Parallel()
	url := migratedDatabase(t)
	conn := connect(t, url)
	sample := func(r *testRelay) *outbox.Sample {
		t.Helper()
		s, err := r.store.Sample(t.Context(), r.info.ID)
		if err != nil || s == nil {
			t.Fatalf("sample %v, error %v", s, err)
		}
		return s
	}
	polls := newTestRelay(t, newStore(t, url, nil), "b") // the oldest: it looks
	if got := polls.store.Streaming(); got != (outbox.Streaming{}) {
		t.Errorf("a relay that polls by choice: %+v", got)
	}
	if s := sample(polls); s.SlotRetained != 0 || s.SlotUnconfirmed != 0 {
		t.Errorf("nobody streams: %d, %d bytes", s.SlotRetained, s.SlotUnconfirmed)
	}
	r := newFollower(t, url, nil)
	await(t, "a heartbeat has come back", func() bool {
		got := r.store.Streaming()
		return got.On && got.Lag > 0 && got.Problem == "" && got.Buffered == 0
	})
	second := newTestRelay(t, newStore(t, url, &Config{Engine: EngineWAL, Notify: NotifyOff}), ">")
	runStream(t, second.store)
	await(t, "the second one stands by", func() bool { return second.store.stream.now().State == stateStandingBy })
	if got := second.store.Streaming(); got != (outbox.Streaming{}) {
		t.Errorf("standing by is no fault: %+v", got)
	}
	insert(t, conn, "a", 3, 0)
	await(t, "what has come is counted", func() bool { return r.store.Streaming().Buffered == 3 })
	if s := sample(polls); s.SlotRetained <= 0 || s.SlotRetained > 1<<30 {
		t.Errorf("the server keeps %d bytes, of which %d are not confirmed", s.SlotRetained, s.SlotUnconfirmed)
	}
	r.settle(t, outbox.Delivered, r.claimAll(t, 3)...)
	if n := r.store.Streaming().Buffered; n != 0 {
		t.Errorf("%d are buffered after they were claimed", n)
	}
}

// TestSlotWithoutPosition: making a slot waits for whoever writes, and has no positions until then.
func TestSlotWithoutPosition(t *testing.T) {
	t.Parallel()
	_, url := ownServer(t, nil)
	conn, writer := connect(t, url), connect(t, url)
	exec(t, writer, "begin")
	exec(t, writer, "select txid_current()")
	r := newTestRelay(t, newStore(t, url, &Config{Engine: EngineWAL, Notify: NotifyOff}), ">")
	runStream(t, r.store)
	await(t, "the slot is being made", func() bool {
		return value[int](t, conn, "select count(*) from pg_replication_slots where confirmed_flush_lsn is null") == 1
	})
	status, err := r.store.WAL(t.Context())
	if err != nil || status.Slot == nil {
		t.Errorf("slot %+v, error %v", status.Slot, err)
	}
	if s, err := r.store.Sample(t.Context(), r.info.ID); err != nil || s == nil {
		t.Errorf("sample %v, error %v", s, err)
	}
	await(t, "it says what it waits for", func() bool {
		got := r.store.Streaming()
		return !got.On && strings.Contains(got.Problem, "waits for transactions that write")
	})
	exec(t, writer, "rollback")
	await(t, "it streams", func() bool { return r.store.Streaming().On })
}

// TestStreamFlaps: a stream that is cut off as soon as it begins is tried more and more rarely, so that it costs the server
// few slots, and the log few lines.
func TestStreamFlaps(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	t.Parallel()
	_, url := ownServer(t, nil)
	conn, log := connect(t, url), &logText{}
	r := newTestRelay(t, newStore(t, url, &Config{Engine: EngineWAL, Notify: NotifyOff, Logger: slog.New(slog.NewTextHandler(log, nil))}), ">")
	runStream(t, r.store)
	begun := func() int { return strings.Count(log.text(), "streaming new messages from the WAL") }
	// At the least 0.05, 0.1, 0.2 … seconds apart, half of what the waits are on average.
	const most = 8
	cut := 0
	for begin := time.Now(); time.Since(begin) < 3*time.Second || cut < 2; time.Sleep(2 * time.Millisecond) {
		if n := begun(); n > cut {
			cut = n
			exec(t, conn, "select pg_terminate_backend(active_pid) from pg_replication_slots where active_pid is not null")
		}
		if time.Since(begin) > 20*time.Second {
			break
		}
	}
	if n, lines := begun(), strings.Count(log.text(), "\n"); n < 2 || n > most || lines > 3*most {
		t.Errorf("it streamed %d times, in %d lines of log:\n%s", n, lines, log.text())
	}
	await(t, "it streams in the end", func() bool { return r.store.Streaming().On })
}
