package pgstore

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// FuzzGranularity: what is accepted is a number of days or months as people write them, within the bounds.
func FuzzGranularity(f *testing.F) {
	for _, text := range []string{"1d", "366d", "367d", "12m", "13m", "0d", "01d", "1x", "", "d", "1d\n", "+1d", "1 d", "٣d", "1D", "99999999999999999999d"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		want := false
		for unit, most := range map[string]int{"d": 366, "m": 12} {
			for n := 1; n <= most; n++ {
				want = want || text == strconv.Itoa(n)+unit
			}
		}
		if got := validGranularity(text); got != want {
			t.Errorf("%q is accepted: %v", text, got)
		}
	})
}

// TestPartitionsOfAnyTimes: whenever partitions are made and whatever the granularities, they do not overlap, their names
// say their bounds, and there are two steps ahead without a gap.
func TestPartitionsOfAnyTimes(t *testing.T) {
	checks(t, 8)
	conn := connect(t, migratedDatabase(t))
	rapid.Check(t, func(rt *rapid.T) {
		exec(t, conn, "begin")
		defer exec(t, conn, "rollback")
		at := time.Unix(rapid.Int64Range(0, 4_000_000_000).Draw(rt, "first"), 0).UTC()
		for range rapid.IntRange(1, 4).Draw(rt, "visits") {
			granularity := drawGranularity(rt)
			addPartitions(t, conn, at.Format(time.RFC3339), granularity)
			ahead := value[time.Time](t, conn, "select outbox.partition_bound($1, $2, 3)", at, granularity)
			checkPartitions(rt, partitionsOf(t, conn), at, ahead)
			at = at.Add(time.Duration(rapid.Int64Range(0, 100*24).Draw(rt, "hours")) * time.Hour)
		}
	})
}

func drawGranularity(t *rapid.T) string {
	if rapid.Bool().Draw(t, "months") {
		return fmt.Sprintf("%dm", rapid.IntRange(1, 12).Draw(t, "n"))
	}
	return fmt.Sprintf("%dd", rapid.SampledFrom([]int{1, 2, 7, 30, 31, 366}).Draw(t, "n"))
}

type bounds struct {
	name         string
	lower, upper time.Time
}

func partitionsOf(t testing.TB, conn queryer) (list []bounds) {
	t.Helper()
	rows, err := conn.Query(t.Context(), "select name, lower, upper from outbox.partitions() order by lower")
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var b bounds
		if err := rows.Scan(&b.name, &b.lower, &b.upper); err != nil {
			t.Fatal(err)
		}
		list = append(list, bounds{b.name, b.lower.UTC(), b.upper.UTC()})
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return list
}

func checkPartitions(t *rapid.T, list []bounds, now, ahead time.Time) {
	const day = "20060102"
	end := now
	for i, p := range list {
		if want := "archive_" + p.lower.Format(day) + "_" + p.upper.Format(day); p.name != want {
			t.Errorf("%s is called %s", want, p.name)
		}
		if !p.lower.Before(p.upper) || i > 0 && p.lower.Before(list[i-1].upper) {
			t.Errorf("%s overlaps", p.name)
		}
		if !p.upper.After(now) {
			continue
		}
		if p.lower.After(end) {
			t.Errorf("there is a gap before %s, from %v", p.name, end)
		}
		end = p.upper
	}
	if end.Before(ahead) {
		t.Errorf("at %v there are partitions until %v, two steps ahead is until %v", now, end, ahead)
	}
}
