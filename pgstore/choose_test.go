package pgstore

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/outboxrelay/outbox/internal/planted"
)

// randomOutbox fills the tables: few keys, some in flight, some waiting or dead with or without holding their key. Gaps in
// seq are messages that have ended. It returns the floor and the keys to be continued.
func randomOutbox(t testing.TB, tx pgx.Tx, rng *rand.Rand, holds bool) (floor int64, keys []string) {
	t.Helper()
	run := func(sql string, args ...any) {
		t.Helper()
		if _, err := tx.Exec(t.Context(), sql, args...); err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
	}
	rows := 5 + rng.IntN(60)
	var claimed []int64
	var hashes []string
	for seq := int64(1); seq <= int64(rows); seq++ {
		key := any(fmt.Sprintf("k%d", rng.IntN(8)))
		if rng.IntN(4) == 0 {
			key = nil
		}
		switch n := rng.IntN(20); {
		case n < 4:
		case n < 6 && holds:
			run(`insert into outbox.waiting (seq, id, topic, key, payload, holds, available_at)
				values ($1, gen_random_uuid(), 'a', $2, 'x', $2::text is not null and $3, now() + interval '1 hour')`, seq, key, rng.IntN(3) > 0)
		case n < 7 && holds:
			run(`insert into outbox.dead (seq, id, topic, key, payload, headers, published_at, attempts, holds, died_at)
				values ($1, gen_random_uuid(), 'a', $2, 'x', '{}', now(), 1, $2::text is not null and $3, now())`, seq, key, rng.IntN(2) > 0)
		default:
			run(`insert into outbox.message (seq, id, topic, key, payload) values ($1, gen_random_uuid(), 'a', $2, 'x')`, seq, key)
			if rng.IntN(8) == 0 {
				claimed = append(claimed, seq)
				if key == nil {
					hashes = append(hashes, "null")
				} else {
					hashes = append(hashes, fmt.Sprintf("hashtext('%s')", key))
				}
			}
		}
	}
	if len(claimed) > 0 {
		run(`insert into outbox.claim (token, relay, beat, destination, seqs, keys, floor, lapses)
			select gen_random_uuid(), r.id, 0, 'lane', $1, array[`+strings.Join(hashes, ", ")+`]::int[], 0, 0 from outbox.relay r`, claimed)
	}
	for i := range 8 {
		if rng.IntN(3) == 0 {
			keys = append(keys, fmt.Sprintf("k%d", i))
		}
	}
	return rng.Int64N(int64(rows) + 2), orEmpty(keys)
}

// undeliveredBelow is the truth that a lane may come to know.
func undeliveredBelow(t testing.TB, tx pgx.Tx, seq int64) []string {
	t.Helper()
	rows, err := tx.Query(t.Context(), "select distinct key from outbox.message where seq < $1 and key is not null", seq)
	if err != nil {
		t.Fatal(err)
	}
	keys, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	return orEmpty(keys)
}

func chosenSeqs(t testing.TB, tx pgx.Tx, sql string, args ...any) []int64 {
	t.Helper()
	var seqs []int64
	var floor *int64
	if err := tx.QueryRow(t.Context(), sql, args...).Scan(&floor, &seqs); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	if floor == nil {
		return nil
	}
	slices.Sort(seqs)
	return orEmpty(seqs)
}

// overtakers are chosen messages with an older undelivered one of their key that is not chosen.
const overtakers = `
select count(*) from outbox.message c
where c.seq = any ($1) and c.key is not null and (
    exists (select from outbox.message m where m.key = c.key and m.seq < c.seq and m.seq <> all ($1))
    or exists (select from outbox.waiting m where m.key = c.key and m.holds and m.seq < c.seq)
    or exists (select from outbox.dead m where m.key = c.key and m.holds and m.seq < c.seq)
    or hashtext(c.key) in (select unnest(keys) from outbox.claim))`

// checkPlainChoice compares outbox.choose_plain with the key rule, and where no key is held with outbox.choose: then both
// take the same.
func checkPlainChoice(t testing.TB, url string, rounds int, known func(keys []string) []string) {
	t.Helper()
	conn := connect(t, url)
	newTestRelay(t, newStore(t, url, nil), ">")
	rng := rand.New(rand.NewPCG(1, 2))
	plain := 0
	for round := range rounds {
		tx, err := conn.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := tx.Exec(t.Context(), "select outbox.plan_settings()"); err != nil {
			t.Fatal(err)
		}
		holds := rng.IntN(2) == 0
		floor, keys := randomOutbox(t, tx, rng, holds)
		limit, window := 1+rng.IntN(30), rng.IntN(60)
		high := rng.Int64N(floor + 1)
		seqs := chosenSeqs(t, tx, "select floor, seqs from outbox.choose_plain('', null, 0, $1, 'lane', $2, 1000, $3, $4, 0, $5, $6, null)",
			floor, limit, window, keys, high, known(undeliveredBelow(t, tx, high)))
		if seqs == nil {
			if err := tx.Rollback(t.Context()); err != nil {
				t.Fatal(err)
			}
			continue
		}
		plain++
		var n int
		if err := tx.QueryRow(t.Context(), overtakers, seqs).Scan(&n); err != nil {
			t.Fatal(err)
		}
		if n > 0 {
			t.Errorf("round %d: %d of %v overtake", round, n, seqs)
		}
		all := chosenSeqs(t, tx, `select floor, seqs from outbox.choose(now(), '', '', null, null, false, false, 0, $1, 'lane', $2,
			1000, false, $3, false, '-infinity', 0, 500, $4, '{}', '{}', 8, 0, null)`, floor, limit, window, keys)
		if !holds && !slices.Equal(seqs, all) {
			t.Errorf("round %d: chosen %v, by outbox.choose %v", round, seqs, all)
		}
		if err := tx.Rollback(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if plain < rounds/2 {
		t.Errorf("only %d of %d rounds were plain", plain, rounds)
	}
}

func TestPlainChoice(t *testing.T) {
	checkPlainChoice(t, migratedDatabase(t), 300, func(keys []string) []string { return keys })
}

func TestPlainChoiceCheckFires(t *testing.T) {
	url := migratedDatabase(t)
	said := planted.Failures(t, func(t testing.TB) {
		checkPlainChoice(t, url, 100, func([]string) []string { return []string{} })
	})
	if !strings.Contains(said, "overtake") || !strings.Contains(said, "by outbox.choose") {
		t.Errorf("known keys that were forgotten were not noticed: %s", said)
	}
}
