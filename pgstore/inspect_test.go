package pgstore

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outboxrelay/outbox"
)

func TestDepths(t *testing.T) {
	t.Parallel()
	url := migratedDatabase(t)
	store, conn := newStore(t, url, nil), connect(t, url)
	depths := func() outbox.Depths {
		t.Helper()
		d, err := store.Depths(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	if d := depths(); !d.Empty() {
		t.Errorf("a new outbox: %+v", d)
	}
	insert(t, conn, "orders.created", 10, 0)
	exec(t, conn, `insert into outbox.waiting (id, topic, payload, available_at)
		values (gen_random_uuid(), 'later', '', clock_timestamp() + interval '1 day')`)
	relay := newTestRelay(t, store, "orders.>")
	ds := relay.claim(t, 4)
	want := outbox.Depths{Ready: outbox.Depth{Messages: 6}, InFlight: 4, Scheduled: outbox.Depth{Messages: 1}}
	if d := depths(); d != want || d.Empty() {
		t.Errorf("4 of 10 in flight: %+v", d)
	}
	relay.settle(t, outbox.Died, ds[0])
	relay.settle(t, outbox.Retried, ds[1])
	want = outbox.Depths{Ready: outbox.Depth{Messages: 6}, InFlight: 2, Retrying: outbox.Depth{Messages: 1},
		Scheduled: outbox.Depth{Messages: 1}, Dead: outbox.Depth{Messages: 1}}
	if d := depths(); d != want {
		t.Errorf("one dead, one to be retried: %+v", d)
	}
}

func TestDepthsOfMany(t *testing.T) {
	if testing.Short() {
		t.Skip("inserts many rows")
	}
	t.Parallel()
	url := migratedDatabase(t)
	store, conn := newStore(t, url, nil), connect(t, url)
	insert(t, conn, "a", countBound, 0)
	d, err := store.Depths(t.Context())
	if err != nil || d.Ready != (outbox.Depth{Messages: countBound}) {
		t.Errorf("the bound is counted: %+v, %v", d.Ready, err)
	}
	insert(t, conn, "a", 20_000, 0)
	exec(t, conn, "analyze outbox.message")
	eventually(t, func() bool {
		d, err = store.Depths(t.Context())
		return err == nil && d.Ready.Estimated && d.Ready.Messages == countBound+20_000
	})
	if d.Ready.AtLeast || d.Ready.Age <= 0 || d.Ready.Age > time.Minute {
		t.Errorf("estimate %+v", d.Ready)
	}
	exec(t, conn, "select pg_stat_reset()")
	eventually(t, func() bool {
		d, err = store.Depths(t.Context())
		return err == nil && d.Ready == outbox.Depth{Messages: countBound, AtLeast: true}
	})
}

// eventually polls what the server's statistics tell with a delay.
func eventually(t *testing.T, condition func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !condition(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("not within 20 s")
		}
	}
}

func TestStatus(t *testing.T) {
	t.Parallel()
	url := migratedDatabase(t)
	store, conn := newStore(t, url, nil), connect(t, url)
	exec(t, conn, `insert into outbox.message (id, topic, payload, published_at)
		values (gen_random_uuid(), 'biling.refunded', '', clock_timestamp() - interval '41 minutes')`)
	insert(t, conn, "orders.created", 3, 0)
	relay := newTestRelay(t, store, "orders.>")
	held := int64(len(relay.claim(t, 2)))
	gone := newTestRelay(t, store, "biling.>")
	expire(t, conn, gone)

	published := make(chan error, 1)
	go func() {
		_, err := conn.Exec(t.Context(), `select pg_sleep(0.3), outbox.publish('orders.created', '')`)
		published <- err
	}()
	st, err := store.Status(t.Context())
	if err := <-published; err != nil {
		t.Fatal(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	if st.Database != conn.Config().Database || st.Schema != "outbox" || st.SchemaVersion != 1 || time.Since(st.At).Abs() > time.Minute {
		t.Errorf("where: %q %q %d %v", st.Database, st.Schema, st.SchemaVersion, st.At)
	}
	if st.OldestEligible < 41*time.Minute || st.OldestEligible > 42*time.Minute {
		t.Errorf("oldest eligible %v", st.OldestEligible)
	}
	if st.InPerSecond <= 0 || st.InPerSecond > 1 {
		t.Errorf("in %v/s", st.InPerSecond)
	}
	if len(st.Unhandled) != 1 || st.Unhandled[0] != (outbox.TopicDepth{Topic: "biling.refunded", Messages: 1}) {
		t.Errorf("unhandled %+v", st.Unhandled)
	}
	if len(st.Destinations) != 1 || st.Destinations[0] != (outbox.DestinationStatus{Name: "lane", Relays: 1, InFlight: held}) {
		t.Errorf("destinations %+v", st.Destinations)
	}
	if len(st.Relays) != 2 || st.LiveRelays() != 1 || st.Relays[0].ID != relay.info.ID || st.Relays[0].InFlight != held ||
		st.Relays[0].Host != "test" || st.Relays[0].LeaseLeft <= 0 || st.Relays[1].LeaseLeft >= 0 || st.Horizon != nil {
		t.Errorf("relays %+v, horizon %+v", st.Relays, st.Horizon)
	}
}

func TestSampleRates(t *testing.T) {
	first := sample{at: 1_000_000, published: 100, left: 500}
	if in, out := first.rates(sample{at: 3_000_000, published: 120, left: 100}); in != 10 || out != 0 {
		t.Errorf("rates %v, %v: a reset counter is no rate", in, out)
	}
	if in, out := first.rates(first); in != 0 || out != 0 {
		t.Errorf("rates %v, %v without time between", in, out)
	}
	st := outbox.Status{Depths: outbox.Depths{Ready: outbox.Depth{Messages: 100}}, InPerSecond: 10, OutPerSecond: 60}
	if st.EmptyIn() != 2*time.Second {
		t.Errorf("empty in %v", st.EmptyIn())
	}
	st.InPerSecond = 60
	if st.EmptyIn() != 0 {
		t.Error("never empty, and says when")
	}
}

// TestHorizonQuery: a test cannot wait until a transaction is old; the patience with it is a parameter.
func TestHorizonQuery(t *testing.T) {
	t.Parallel()
	url := migratedDatabase(t)
	store, conn := newStore(t, url, nil), connect(t, url)
	tx := begin(t, conn)
	if _, err := tx.Exec(t.Context(), "select pg_current_xact_id()"); err != nil {
		t.Fatal(err)
	}
	err := store.inspect(t.Context(), func(tx pgx.Tx) error {
		h, err := readHorizon(t.Context(), tx, maxHorizonPatience)
		if err != nil || h != nil {
			t.Errorf("a young transaction: %+v, %v", h, err)
		}
		h, err = readHorizon(t.Context(), tx, time.Microsecond)
		if err != nil || h == nil || h.Kind != "session" || h.Age <= 0 {
			t.Errorf("an old transaction: %+v, %v", h, err)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestInspectIsBounded: among a hundred thousand messages nothing takes the time of looking at each of them for each
// other. That whole tables are not read is seen in the plans: TestOperatorPlansUseIndexes.
func TestInspectIsBounded(t *testing.T) {
	if testing.Short() {
		t.Skip("inserts many rows")
	}
	t.Parallel()
	url := migratedDatabase(t)
	store, conn := newStore(t, url, nil), connect(t, url)
	insert(t, conn, "a", 100_000, 100)
	newTestRelay(t, store, "a").claim(t, 1000)
	begin := time.Now()
	if _, err := store.Status(t.Context()); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(begin) - sampleInterval; took > tooLong {
		t.Errorf("took %v beside the sampled second", took)
	}
	operatorsAreBounded(t, conn, store)
}
