package pgstore

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/outboxrelay/outbox"
)

// heads are the ways in which a key's oldest message keeps the others from being claimed.
var heads = map[string]string{
	"waiting": `insert into outbox.waiting (id, topic, key, payload, holds, available_at)
		values (gen_random_uuid(), 'a', 'blocked', 'head', true, clock_timestamp() + interval '1 hour')`,
	"parked": `insert into outbox.dead (seq, id, topic, key, payload, headers, holds, published_at)
		values (nextval('outbox.seq'), gen_random_uuid(), 'a', 'blocked', 'head', '{}', true, clock_timestamp())`,
}

// blockKey puts n messages of one key behind a head that nobody may take now.
func blockKey(t testing.TB, conn *pgx.Conn, head string, n int) {
	t.Helper()
	exec(t, conn, head)
	exec(t, conn, `insert into outbox.message (id, topic, key, payload)
		select gen_random_uuid(), 'a', 'blocked', 'follower' from generate_series(1, $1::int)`, n)
}

// A blocked key's followers do not hold up what is behind them: the windows grow past them.
func TestManyRowsOfABlockedKeyArePassed(t *testing.T) {
	if testing.Short() {
		t.Skip("inserts many rows")
	}
	t.Parallel()
	const followers, others, limit = 50_000, 1000, 500
	for name, head := range heads {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := migratedDatabase(t)
			conn := connect(t, url)
			blockKey(t, conn, head, followers)
			insert(t, conn, "a", others, 100)
			relay := newTestRelay(t, newStore(t, url, nil), "a")
			calls, got := 0, 0
			for ; got < others && calls < followers; calls++ {
				q := relay.query(limit)
				batch, err := relay.store.Claim(t.Context(), q)
				if err != nil {
					t.Fatal(err)
				}
				relay.known = append(relay.known, q.Token)
				for _, c := range batch.Claims {
					for _, d := range c.Deliveries {
						if d.Key == "blocked" {
							t.Fatalf("claimed %s of the blocked key", d.Payload)
						}
					}
					got += len(c.Deliveries)
					relay.settle(t, outbox.Delivered, c.Deliveries...)
				}
			}
			// Windows of 500, 1,000, … 8,000 rows: so many fit into eleven of them.
			if got < others || calls > 20 {
				t.Errorf("%d of %d claimed with %d calls", got, others, calls)
			}
		})
	}
}

// rowsOfClaim is how many rows of message a claim that continues these keys reads.
func rowsOfClaim(t testing.TB, url string, relay outbox.ID, floor int64, keys []string) (rows int) {
	t.Helper()
	r := newPlanRecorder(t, url)
	for _, setting := range []string{"auto_explain.log_analyze = on", "auto_explain.log_timing = off"} {
		exec(t, r.conn, "set "+setting)
	}
	tx, err := r.conn.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	r.plans = nil
	if _, err := tx.Exec(t.Context(), `select outbox.claim($1, 'lane', gen_random_uuid(), 50, 1000000, true, null,
		$2, true, 50, false, '-infinity', 0, 500, $3, '{}', '{}', 8, 0, 0, 0, 0, 0, '{}', false)`, relay, floor, keys); err != nil {
		t.Fatal(err)
	}
	for _, plan := range r.plans {
		rows += rowsOf(plan)
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	return rows
}

var (
	planScan    = regexp.MustCompile(` on message .*\(actual rows=([\d.]+) loops=(\d+)\)`)
	planRemoved = regexp.MustCompile(`^ *Rows Removed by Filter: (\d+)`)
)

// rowsOf counts the rows that the plan's scans of message have read, those that a filter removed included.
func rowsOf(plan string) (rows int) {
	loops := 0 // of the scan whose lines these are
	for line := range strings.Lines(plan) {
		if match := planScan.FindStringSubmatch(line); match != nil {
			n, _ := strconv.ParseFloat(match[1], 64) // on average; since PostgreSQL 18 with two digits
			loops, _ = strconv.Atoi(match[2])
			rows += int(math.Round(n * float64(loops)))
		} else if match := planRemoved.FindStringSubmatch(line); match != nil {
			n, _ := strconv.Atoi(match[1])
			rows += n * loops
		} else if strings.Contains(line, "->") {
			loops = 0
		}
	}
	return rows
}

// A claim that asks for a blocked key reads no more when it has 50,000 followers than when it has ten.
func TestABlockedKeyIsAskedForCheaply(t *testing.T) {
	t.Parallel()
	for name, head := range heads {
		for _, paused := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, another topic paused: %v", name, paused), func(t *testing.T) {
				t.Parallel()
				url := migratedDatabase(t)
				conn := connect(t, url)
				blockKey(t, conn, head, 10)
				insert(t, conn, "a", 100, 10)
				if paused {
					exec(t, conn, "insert into outbox.control (scope, name) values ('topic', 'other')")
				}
				relay := newTestRelay(t, newStore(t, url, nil), "a")
				floor := value[int64](t, conn, "select min(seq) from outbox.message where key <> 'blocked'")
				few := rowsOfClaim(t, url, relay.info.ID, floor, []string{"blocked"})
				exec(t, conn, `update outbox.message set seq = seq + 100000 where key <> 'blocked'`)
				exec(t, conn, `insert into outbox.message (seq, id, topic, key, payload)
					select $1 + g, gen_random_uuid(), 'a', 'blocked', 'follower' from generate_series(1, 50000) g`, floor)
				many := rowsOfClaim(t, url, relay.info.ID, floor+60_000, []string{"blocked"})
				if few < 50 || many > few+10 {
					t.Errorf("a claim reads %d rows, with few followers %d", many, few)
				}
			})
		}
	}
}

func TestRowsOfAPlan(t *testing.T) {
	const plan = `Limit  (cost=0.29..8.31 rows=1 width=8) (actual rows=1 loops=1)
  ->  Index Only Scan using message_key on message m  (cost=0.29..8.31 rows=1 width=8) (actual rows=5 loops=3)
        Filter: (topic ~ 'a'::text)
        Rows Removed by Filter: 2
  ->  Index Scan using waiting_key on waiting o  (cost=0.29..8.31 rows=1 width=8) (actual rows=7 loops=1)
        Rows Removed by Filter: 100
`
	if got := rowsOf(plan); got != 21 {
		t.Errorf("%d rows, want 5 and 2, three times", got)
	}
	of18 := strings.ReplaceAll(strings.ReplaceAll(plan, "rows=5 loops", "rows=4.67 loops"), "rows=7 loops", "rows=7.00 loops")
	if got := rowsOf(of18); got != 20 {
		t.Errorf("%d rows in the words of PostgreSQL 18, want 14 and three times 2", got)
	}
}
