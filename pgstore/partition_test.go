package pgstore

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outboxrelay/outbox"
)

// addPartitions makes what is missing at a time, and returns the names of all partitions.
func addPartitions(t testing.TB, conn *pgx.Conn, now, granularity string) []string {
	t.Helper()
	for {
		name := value[*string](t, conn, "select outbox.add_partition($1, $2)", now, granularity)
		if name == nil {
			return values[string](t, conn, "select name from outbox.partitions() order by lower")
		}
	}
}

func TestPartitionsAhead(t *testing.T) {
	t.Parallel()
	url := migratedDatabase(t)
	for _, c := range []struct{ now, granularity, want string }{
		{"2026-03-14 15:09:26+00", "1d", "20260314_20260315 20260315_20260316 20260316_20260317"},
		{"2024-02-28 23:59:59.999999+00", "1d", "20240228_20240229 20240229_20240301 20240301_20240302"},
		{"2023-12-31 23:30:00-05", "1d", "20240101_20240102 20240102_20240103 20240103_20240104"},
		{"2026-01-01 00:00:00+00", "7d", "20251229_20260105 20260105_20260112 20260112_20260119"},
		{"2024-02-10 00:00:00+00", "30d", "20240131_20240301 20240301_20240331 20240331_20240430"},
		{"2024-01-31 12:00:00+00", "1m", "20240101_20240201 20240201_20240301 20240301_20240401"},
		{"2025-11-30 00:00:00+00", "3m", "20251001_20260101 20260101_20260401 20260401_20260701"},
		{"1999-12-31 12:00:00+00", "7d", "19991227_20000103 20000103_20000110 20000110_20000117"},
	} {
		t.Run(c.now+" "+c.granularity, func(t *testing.T) {
			conn := connect(t, url)
			exec(t, conn, "begin")
			exec(t, conn, "set timezone = 'Pacific/Auckland'; set datestyle = 'German'")
			var names []string
			eventually(t, func() bool { // not while autovacuum has the table
				names = addPartitions(t, conn, c.now, c.granularity)
				return names != nil
			})
			if got := strings.ReplaceAll(strings.Join(names, " "), "archive_", ""); got != c.want {
				t.Errorf("made %s, want %s", got, c.want)
			}
			if again := addPartitions(t, conn, c.now, c.granularity); !slices.Equal(again, names) {
				t.Errorf("made again: %v", again)
			}
		})
	}
	conn := connect(t, url)
	for _, granularity := range []string{"0d", "1x", "", "daily", "-1d", "1", "1d ", "1000d"} {
		_, err := conn.Exec(t.Context(), "select outbox.add_partition(now(), $1)", granularity)
		if state(err) != "22023" {
			t.Errorf("granularity %q: %v, want it refused", granularity, err)
		}
		if granularity != "" {
			if _, err := New(newStore(t, url, nil).pool, &Config{Archive: Archive{Granularity: granularity}}); err == nil {
				t.Errorf("granularity %q is accepted by New", granularity)
			}
		}
	}
}

// TestGranularityChanges: the next partition begins where the last one ends, whatever its length.
func TestGranularityChanges(t *testing.T) {
	t.Parallel()
	conn := connect(t, migratedDatabase(t))
	addPartitions(t, conn, "2026-03-10 01:00:00+00", "1d") // to the 13th
	addPartitions(t, conn, "2026-03-10 02:00:00+00", "7d")
	addPartitions(t, conn, "2026-03-10 03:00:00+00", "1m")
	names := addPartitions(t, conn, "2026-04-29 03:00:00+00", "1d")
	want := "archive_20260310_20260311 archive_20260311_20260312 archive_20260312_20260313 archive_20260313_20260316 " +
		"archive_20260316_20260323 archive_20260323_20260330 archive_20260330_20260401 archive_20260401_20260501 archive_20260501_20260601"
	if got := strings.Join(names, " "); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func insertArchived(t testing.TB, conn *pgx.Conn, seq int64, endedAt string) {
	t.Helper()
	exec(t, conn, `insert into outbox.archive (seq, id, topic, payload, headers, published_at, outcome, ended_at)
		values ($1, gen_random_uuid(), 'a', '', '{}', $2, 'delivered', $2)`, seq, endedAt)
}

// TestDefaultPartition: what has no partition has its place, and moves when there is one.
func TestDefaultPartition(t *testing.T) {
	t.Parallel()
	conn := connect(t, migratedDatabase(t))
	for i, at := range []string{"1970-01-01", "2026-03-09 23:59:59.999999+00", "2026-03-10 00:00:00+00", "2026-03-11 12:00:00+00", "2030-01-01"} {
		insertArchived(t, conn, int64(i+1), at)
	}
	addPartitions(t, conn, "2026-03-10 06:00:00+00", "1d")
	got := values[string](t, conn, "select tableoid::regclass || ' ' || seq from outbox.archive order by seq")
	want := []string{"outbox.archive_default 1", "outbox.archive_default 2", "outbox.archive_20260310_20260311 3",
		"outbox.archive_20260311_20260312 4", "outbox.archive_default 5"}
	if !slices.Equal(got, want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
}

// TestPartitionsByHand: what people drop or detach is gone and nothing breaks.
func TestPartitionsByHand(t *testing.T) {
	t.Parallel()
	conn := connect(t, migratedDatabase(t))
	const now = "2026-03-10 06:00:00+00"
	addPartitions(t, conn, now, "1d")
	insertArchived(t, conn, 1, now)
	exec(t, conn, "drop table outbox.archive_20260311_20260312")
	exec(t, conn, "alter table outbox.archive detach partition outbox.archive_20260310_20260311")
	insertArchived(t, conn, 2, now)
	names := addPartitions(t, conn, now, "1d")
	if got := strings.Join(names, " "); got != "archive_20260311_20260312 archive_20260312_20260313" {
		t.Errorf("partitions: %s; what was detached must not come back, what was dropped must", got)
	}
	if got := values[int64](t, conn, "select seq from outbox.archive"); !slices.Equal(got, []int64{2}) {
		t.Errorf("archived: %v", got)
	}
	exec(t, conn, "drop table outbox.archive_20260310_20260311")
	addPartitions(t, conn, now, "1d")
	if got := value[string](t, conn, "select tableoid::regclass::text from outbox.archive"); got != "outbox.archive_20260310_20260311" {
		t.Errorf("the message is in %s", got)
	}
}

// TestPartitionsMadeAtOnce: of many relays that start at once, one makes them and none fails.
func TestPartitionsMadeAtOnce(t *testing.T) {
	t.Parallel()
	url := migratedDatabase(t)
	const relays = 6
	errs := make(chan error, relays)
	for range relays {
		store := newStore(t, url, &Config{KeepDelivered: outbox.KeepForever, Logger: slog.New(slog.DiscardHandler)})
		go func() { errs <- store.lookAfterPartitions(t.Context(), time.Time{}) }()
	}
	for range relays {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
	conn := connect(t, url)
	if n := value[int](t, conn, "select count(*) from outbox.partitions()"); n != 3 {
		t.Errorf("%d partitions, want 3", n)
	}
	if got := value[string](t, conn, "select value from outbox.setting where name = 'archive'"); got != "full" {
		t.Errorf("what is kept is written down as %q", got)
	}
}

// TestArchiveExpires: maintenance that is called with times drops whole partitions and deletes the rest in portions,
// and exactly what has been kept long enough is gone.
func TestArchiveExpires(t *testing.T) {
	if testing.Short() {
		t.Skip("inserts many rows")
	}
	t.Parallel()
	url := migratedDatabase(t)
	conn := connect(t, url)
	store := newStore(t, url, &Config{KeepDelivered: 30 * 24 * time.Hour, Logger: slog.New(slog.DiscardHandler)})
	messages, days := sizeOf(t, "OUTBOX_TEST_ARCHIVED", 20_000), 40
	first := time.Date(2026, 1, 25, 0, 0, 0, 0, time.UTC)
	for day := range days {
		if _, _, err := store.maintainArchive(t.Context(), outbox.MaintainQuery{Limit: 1000, Now: first.AddDate(0, 0, day)}); err != nil {
			t.Fatal(err)
		}
		if day < 30 { // all of it before anything goes
			fillDay(t, conn, first.AddDate(0, 0, day), messages/days)
			continue
		}
		before := first.AddDate(0, 0, day-30)
		if n := value[int](t, conn, "select count(*) from outbox.archive where ended_at < $1", before); n != 0 {
			t.Errorf("day %d: %d messages are older than the window", day, n)
		}
		fillDay(t, conn, first.AddDate(0, 0, day), messages/days)
	}
	if n := value[int](t, conn, "select count(*) from outbox.archive_default"); n != 0 {
		t.Errorf("%d messages had no partition", n)
	}

	// The end falls into a partition: its older part goes in portions.
	now := first.AddDate(0, 0, days).Add(7 * time.Hour)
	want := value[int64](t, conn, "select count(*) from outbox.archive where ended_at < $1", now.Add(-30*24*time.Hour))
	left := value[int64](t, conn, "select count(*) from outbox.archive") - want
	var expired int64
	portions := 0
	for more := true; more; portions++ {
		n, again, err := store.maintainArchive(t.Context(), outbox.MaintainQuery{Limit: 50, Now: now})
		if err != nil {
			t.Fatal(err)
		}
		expired, more = expired+n, again
	}
	if got := value[int64](t, conn, "select count(*) from outbox.archive"); got != left || expired != want || want == 0 {
		t.Errorf("expired %d, want %d; left %d, want %d", expired, want, got, left)
	}
	if portions < 2 {
		t.Errorf("%d portions", portions)
	}
	if names := values[string](t, conn, "select name from outbox.partitions()"); len(names) != 33 {
		t.Errorf("%d partitions: %v", len(names), names)
	}
}

// fillDay archives messages spread over a day.
func fillDay(t testing.TB, conn *pgx.Conn, day time.Time, n int) {
	t.Helper()
	exec(t, conn, `insert into outbox.archive (seq, id, topic, payload, headers, published_at, outcome, ended_at)
		select nextval('outbox.seq'), gen_random_uuid(), 'a.' || i % 3, '{}', '{}', $1::timestamptz, 'delivered',
		       $1::timestamptz + i * interval '24 hours' / $2
		from generate_series(0, $2 - 1) i`, day, n)
}

// TestKeepOffLeavesArchive: a relay that keeps nothing neither makes partitions nor removes what others kept.
func TestKeepOffLeavesArchive(t *testing.T) {
	t.Parallel()
	url := migratedDatabase(t)
	conn := connect(t, url)
	addPartitions(t, conn, "2020-01-01", "1d")
	insertArchived(t, conn, 1, "2020-01-01 12:00:00+00")
	store := newStore(t, url, nil)
	store.prepareArchive(t.Context())
	if _, err := store.Maintain(t.Context(), outbox.MaintainQuery{Limit: 1000}); err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(values[string](t, conn, "select tableoid::regclass::text from outbox.archive"),
		value[int](t, conn, "select count(*) from outbox.partitions()")); got != "[outbox.archive_20200101_20200102] 3" {
		t.Error(got)
	}
}
