package pgstore

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outboxrelay/outbox"
)

// keepingRelay is a relay of a store that keeps what it ends for a day, with partitions ahead. Its log is returned, too.
func keepingRelay(t *testing.T, url string) (*testRelay, *lockedBuffer) {
	t.Helper()
	log := &lockedBuffer{}
	store := newStore(t, url, &Config{KeepDelivered: 24 * time.Hour, Logger: slog.New(slog.NewTextHandler(log, nil))})
	if err := store.lookAfterPartitions(t.Context(), time.Time{}); err != nil {
		t.Fatal(err)
	}
	return newTestRelay(t, store, ">"), log
}

// TestArchiveRefuses: what the archive does not take is settled all the same, counted, and told once.
func TestArchiveRefuses(t *testing.T) {
	t.Parallel()
	url := migratedDatabase(t)
	conn := connect(t, url)
	relay, log := keepingRelay(t, url)
	settle := func(topic string, kind outbox.OutcomeKind) {
		t.Helper()
		insert(t, conn, topic, 1, 0)
		relay.settle(t, kind, relay.claim(t, 10)...)
	}
	kept := func(want int, notKept int64) {
		t.Helper()
		n := value[int](t, conn, "select count(*) from outbox.archive")
		if left := value[int](t, conn, "select count(*) from outbox.message"); n != want || left != 0 || relay.store.NotKept() != notKept {
			t.Errorf("kept %d, want %d; not kept %d, want %d; %d unsettled", n, want, relay.store.NotKept(), notKept, left)
		}
	}
	settle("fine", outbox.Delivered)
	kept(1, 0)
	exec(t, conn, "alter table outbox.archive add constraint ours check (topic <> 'poison')")
	settle("poison", outbox.Delivered) // a whole claim
	settle("poison", outbox.Dropped)   // a part
	settle("poison", outbox.Expired)
	kept(1, 3)
	settle("fine", outbox.Dropped)
	kept(2, 3)
	if refused, again := log.count("refuses messages"), log.count("keeps messages again"); refused != 1 || again != 1 {
		t.Errorf("told %d times of the refusal, %d times of its end", refused, again)
	}

	// No partition at all.
	for _, name := range values[string](t, conn, "select name from outbox.partitions() union all select 'archive_default'") {
		exec(t, conn, "drop table outbox."+name)
	}
	settle("fine", outbox.Delivered)
	kept(0, 4)
	exec(t, conn, "create table outbox.archive_default partition of outbox.archive default")

	// Somebody alters the archive and takes his time.
	tx := begin(t, conn)
	if _, err := tx.Exec(t.Context(), "lock table outbox.archive in access exclusive mode"); err != nil {
		t.Fatal(err)
	}
	publish(t, connect(t, url), newPublisher(t, nil), outbox.Message{Topic: "fine"})
	relay.settle(t, outbox.Delivered, relay.claim(t, 10)...)
	commit(t, tx)
	kept(0, 5)
}

// TestSettleTxKeeps: what a handler settles in its own transaction is kept like the rest, and what the archive refuses is settled.
func TestSettleTxKeeps(t *testing.T) {
	t.Parallel()
	url := migratedDatabase(t)
	conn := connect(t, url)
	relay, _ := keepingRelay(t, url)
	exec(t, conn, "alter table outbox.archive add constraint ours check (topic <> 'poison')")
	for _, topic := range []string{"fine", "poison"} {
		insert(t, conn, topic, 1, 0)
		ds := relay.claim(t, 1)
		err := pgx.BeginFunc(t.Context(), conn, func(tx pgx.Tx) error { return relay.store.SettleTx(t.Context(), tx, ds[0]) })
		if err != nil {
			t.Errorf("%s: %v", topic, err)
		}
	}
	kept := values[string](t, conn, "select concat_ws(' ', topic, outcome, destination, attempts, convert_from(payload, 'UTF8')) from outbox.archive")
	if left := value[int](t, conn, "select count(*) from outbox.message"); left != 0 || len(kept) != 1 || kept[0] != "fine delivered lane 1 1" {
		t.Errorf("kept %q, %d left", kept, left)
	}
}

// TestReaderHoldsNoSettles: while somebody reads the archive for long, a partition cannot be dropped or attached; settling does not wait
// for who tries.
func TestReaderHoldsNoSettles(t *testing.T) {
	t.Parallel()
	url := migratedDatabase(t)
	conn := connect(t, url)
	relay, _ := keepingRelay(t, url)
	exec(t, conn, "create table outbox.archive_20200101_20200102 partition of outbox.archive for values from ('2020-01-01') to ('2020-01-02')")
	insertArchived(t, conn, 1, "2020-01-01 12:00:00+00")
	const bearable = time.Second // a machine that is busy; the locks are tried for a tenth of it
	if longest := longestSettle(t, conn, relay); longest > bearable {
		t.Errorf("a settlement took %v", longest)
	}
	if n := value[int](t, conn, "select count(*) from outbox.archive where ended_at < '2021-01-01'"); n != 1 {
		t.Error("the partition went while somebody read it")
	}
	if _, _, err := relay.store.maintainArchive(t.Context(), outbox.MaintainQuery{Limit: 10}); err != nil {
		t.Error(err)
	}
	if n := value[int](t, conn, "select count(*) from outbox.archive where ended_at < '2021-01-01'"); n != 0 {
		t.Error("the partition did not go when nobody read it any more")
	}

	// The test can fail: with more patience for the lock.
	exec(t, conn, "create table outbox.archive_20200101_20200102 partition of outbox.archive for values from ('2020-01-01') to ('2020-01-02')")
	exec(t, conn, "alter function outbox.drop_partition set lock_timeout = '700ms'")
	if longest := longestSettle(t, conn, relay); longest <= 400*time.Millisecond {
		t.Errorf("settling took %v at most although it had to wait for a lock", longest)
	}
}

// longestSettle settles messages, one after another, while the archive is maintained in vain since conn reads it.
func longestSettle(t *testing.T, conn *pgx.Conn, relay *testRelay) (longest time.Duration) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	insert(t, conn, "a", 2000, 0)
	reader := begin(t, conn)
	if _, err := reader.Exec(t.Context(), "select count(*) from outbox.archive"); err != nil {
		t.Fatal(err)
	}
	maintained := make(chan error, 1)
	go func() {
		_, _, err := relay.store.maintainArchive(ctx, outbox.MaintainQuery{Limit: 10, Now: time.Now().Add(24 * time.Hour)})
		maintained <- err
	}()
	settled := 0
	for done := false; !done; settled++ {
		begin := time.Now()
		relay.settle(t, outbox.Delivered, relay.claim(t, 1)...)
		longest = max(longest, time.Since(begin))
		select {
		case err := <-maintained:
			if state, _ := sqlError(err); state != lockNotAvailable {
				t.Errorf("maintenance did not meet the reader: %v", err)
			}
			done = true
		default:
		}
	}
	t.Logf("%d settlements, the longest took %v", settled, longest)
	if err := reader.Rollback(t.Context()); err != nil && !errors.Is(err, pgx.ErrTxClosed) {
		t.Fatal(err)
	}
	relay.settle(t, outbox.Delivered, relay.claim(t, 2000)...)
	return longest
}

// TestKeepOffCostsNothing: who keeps nothing settles with the statements that settling takes, and never looks at the archive.
func TestKeepOffCostsNothing(t *testing.T) {
	t.Parallel()
	url := migratedDatabase(t)
	conn, store := connect(t, url), newStore(t, url, nil)
	insert(t, conn, "a", 200, 0)
	relay := newTestRelay(t, store, ">")
	plans := func(keep *bool) string {
		d := relay.claim(t, 10)[0]
		r := newPlanRecorder(t, url)
		whole := r.operatorPlans(t, "select * from outbox.settle_delivered($1, $2, $3, $4)",
			relay.info.ID, []int64{d.Claim.ID}, []outbox.Token{d.Claim.Token}, keep)
		parts := r.operatorPlans(t, "select * from outbox.settle($1, $2, $3, $4, '{delivered}', '{0}', '{0}', '{\"\"}', '{\"\"}', false, $5)",
			relay.info.ID, []int64{d.Claim.ID}, []outbox.Token{d.Claim.Token}, []int64{d.Seq}, keep)
		return whole + parts
	}
	deletes := func(plans string) int { return strings.Count(plans, "Delete on ") }
	off := plans(nil)
	if strings.Contains(off, "archive") {
		t.Errorf("keeping nothing reads or writes the archive:\n%s", off)
	}
	if n := deletes(off); n != 5 { // whole: claim, message; parts: these and waiting
		t.Errorf("%d deletes, want 5:\n%s", n, off)
	}
	full := true
	if on := plans(&full); !strings.Contains(on, "Insert on archive") {
		t.Errorf("keeping does not write the archive:\n%s", on)
	}
}
