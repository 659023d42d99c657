package pgstore

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outboxrelay/outbox"
	"github.com/outboxrelay/outbox/internal/interval"
)

// TestPurgeCounts: what a purge reports is what SQL counts, and it drops whole partitions where it may.
func TestPurgeCounts(t *testing.T) {
	t.Parallel()
	url := migratedDatabase(t)
	conn, store := connect(t, url), newStore(t, url, nil)
	today := value[time.Time](t, conn, "select date_trunc('day', now() at time zone 'UTC') at time zone 'UTC'")
	const days, each = 8, 300
	for day := range days {
		at := today.AddDate(0, 0, day-days)
		addPartitions(t, conn, at.Format(time.RFC3339), "1d")
		fillDay(t, conn, at, each)
	}
	insertArchived(t, conn, 1, "1999-01-01") // in the default partition
	ended := []outbox.State{outbox.StateDelivered, outbox.StateDropped, outbox.StateExpired, outbox.StateDiscarded}
	purge := func(c outbox.Change, where string) (partitions []string) {
		t.Helper()
		count := func(where string) int64 {
			return value[int64](t, conn, "select count(*) from outbox.archive where "+where)
		}
		all, want := count("true"), count(where)
		report, err := store.Purge(t.Context(), c)
		if err != nil || report.Matched != want || report.Changed != want || want == 0 || report.More {
			t.Errorf("%+v: %+v, %v; SQL counted %d", c.Filter, report, err, want)
		}
		if left := count(where); left != 0 || all-want != count("true") {
			t.Errorf("%+v: %d are left that should not be, %d in all", c.Filter, left, count("true"))
		}
		counts := value[int64](t, conn, "select (counts ->> 'changed')::bigint from outbox.operation where id = $1 and state = 'done'", report.Operation)
		if counts != want {
			t.Errorf("%d are recorded, want %d", counts, want)
		}
		return values[string](t, conn, "select name from outbox.partitions() order by 1")
	}
	before := values[string](t, conn, "select name from outbox.partitions() order by 1")
	if left := purge(outbox.Change{Filter: outbox.Filter{States: ended, Topic: "a.1", Limit: 10_000}}, "topic = 'a.1'"); !slices.Equal(left, before) {
		t.Errorf("a topic's purge dropped partitions: %v", left)
	}
	age := value[time.Duration](t, conn, "select (now() - $1::timestamptz)", today.AddDate(0, 0, -4).Add(11*time.Hour))
	window := outbox.Filter{States: ended, OlderThan: age}
	left := purge(outbox.Change{Filter: window}, fmt.Sprintf("ended_at < now() - interval '%s'", interval.Text(age)))
	if gone := len(before) - len(left); gone != 4 {
		t.Errorf("%d partitions were dropped, want 4: %v", gone, left)
	}
	if left := purge(outbox.Change{Filter: outbox.Filter{States: ended}, Rate: 100_000}, "true"); len(left) != len(before)-4 {
		t.Errorf("a purge at a rate dropped partitions: %v", left)
	}
}

// TestPurgeBesideReader: who reads the archive keeps its partitions from being dropped; a purge then deletes what is in them.
func TestPurgeBesideReader(t *testing.T) {
	t.Parallel()
	url := migratedDatabase(t)
	conn, store := connect(t, url), newStore(t, url, nil)
	addPartitions(t, conn, "2026-03-10 06:00:00+00", "1d")
	fillDay(t, conn, time.Date(2026, 3, 10, 0, 0, 0, 0, time.UTC), 50)
	reader := begin(t, connect(t, url))
	defer reader.Rollback(t.Context())
	if _, err := reader.Exec(t.Context(), "select count(*) from outbox.archive"); err != nil {
		t.Fatal(err)
	}
	report, err := store.Purge(t.Context(), outbox.Change{Filter: outbox.Filter{All: true}})
	if err != nil || report.Changed != 50 {
		t.Errorf("%+v, %v", report, err)
	}
	if n := value[int](t, conn, "select count(*) from outbox.partitions()"); n != 3 {
		t.Errorf("%d partitions, want 3", n)
	}
}

// TestOperationsNeedNoTable: who may execute the functions sees operations and goes on with them, without a right to the table.
func TestOperationsNeedNoTable(t *testing.T) {
	t.Parallel()
	url := migratedDatabase(t)
	conn := connect(t, url)
	role := "operations_" + conn.Config().Database
	exec(t, conn, "create role "+role+" login password 'x'; grant usage on schema outbox to "+role)
	exec(t, conn, "grant execute on function outbox.redrive, outbox.operations to "+role)
	defer exec(t, conn, "drop owned by "+role+"; drop role "+role)
	insert(t, conn, "a", 3, 0)
	relay := newTestRelay(t, newStore(t, url, nil), ">")
	relay.settle(t, outbox.Died, relay.claim(t, 3)...)
	op := value[int64](t, conn, "select operation_id from outbox.redrive(everything => true, batch => 1)")
	cfg, err := pgx.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	store := newStore(t, fmt.Sprintf("host=%s port=%d dbname=%s user=%s password=x", cfg.Host, cfg.Port, cfg.Database, role), nil)
	list, err := store.Operations(t.Context(), 0)
	if err != nil || len(list) != 1 || list[0].Release() != fmt.Sprintf("outbox redrive --continue %d", op) {
		t.Fatalf("%+v, %v", list, err)
	}
	if r, err := store.Redrive(t.Context(), outbox.Change{Continue: op}); err != nil || r.Changed != 3 {
		t.Errorf("%+v, %v", r, err)
	}
}
