package pgstore

import (
	"errors"
	"testing"
	"time"

	"github.com/outboxrelay/outbox"
)

// TestSilentRelayIsForgotten: a relay whose lease has ended by its own clock begins again under another id. Its old
// connection goes, and nothing is remembered of it; one that sends heartbeats stays.
func TestSilentRelayIsForgotten(t *testing.T) {
	t.Parallel()
	url := migratedDatabase(t)
	conn := connect(t, url)
	store := newStore(t, url+"&application_name=silent", nil)
	const heartbeats = `select count(*) from pg_stat_activity where datname = current_database() and application_name = 'silent'`
	base := value[int](t, conn, heartbeats)
	steady := newTestRelay(t, store, ">")
	for range 5 {
		old := newTestRelay(t, store, ">")
		old.info.Lease = 10 * time.Millisecond
		old.beat(t)
		time.Sleep(silentLeases * old.info.Lease) // its leases
		steady.beat(t)
		if _, err := store.Beat(t.Context(), old.info, nil); !errors.Is(err, outbox.ErrLeaseLost) {
			t.Errorf("a heartbeat of the old relay: %v, want ErrLeaseLost", err)
		}
	}
	store.mu.Lock()
	if n := len(store.relays); n != 1 {
		t.Errorf("%d relays are remembered, want the one that lives", n)
	}
	store.mu.Unlock()
	for deadline := time.Now().Add(10 * time.Second); value[int](t, conn, heartbeats) != base+1; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%d connections, want that of the relay that lives", value[int](t, conn, heartbeats)-base)
		}
	}
}
