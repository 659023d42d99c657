package pgstore

import (
	"slices"
	"testing"
	"time"
)

// What a sweep finds again, because no claim had room for it, is not offered twice.
func TestSweepOffersOnce(t *testing.T) {
	t.Parallel()
	url := migratedDatabase(t)
	store := newStore(t, url, nil)
	insert(t, connect(t, url), "a", 5, 0)
	relay := newTestRelay(t, store, ">")
	lane := store.relay(relay.info.ID).lane("lane")
	lane.floor = 100
	for range 3 {
		lane.sweep = sweep{}
		if _, err := store.sweepPage(t.Context(), lane, relay.info.ID, "lane"); err != nil {
			t.Fatal(err)
		}
	}
	if want := []int64{1, 2, 3, 4, 5}; !slices.Equal(lane.offered, want) {
		t.Errorf("offered are %v, want %v", lane.offered, want)
	}
}

// A claim lists a message once, however often it is offered.
func TestClaimListsOnce(t *testing.T) {
	t.Parallel()
	url := migratedDatabase(t)
	conn := connect(t, url)
	store := newStore(t, url, nil)
	insert(t, conn, "a", 3, 0)
	relay := newTestRelay(t, store, ">")
	lane := store.relay(relay.info.ID).lane("lane")
	lane.floor, lane.offered = 100, []int64{1, 2, 1, 1, 2}
	lane.sweep.rested = time.Now().Add(time.Hour)
	if ds := relay.claim(t, 10); payloads(ds) != "1 2 " {
		t.Errorf("claimed %s", payloads(ds))
	}
	if listed := value[[]int64](t, conn, "select seqs from outbox.claim"); !slices.Equal(listed, []int64{1, 2}) {
		t.Errorf("listed are %v", listed)
	}
	if ds := relay.claim(t, 10); ds != nil {
		t.Errorf("claimed again: %s", payloads(ds))
	}
}
