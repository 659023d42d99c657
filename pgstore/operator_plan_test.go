package pgstore

import (
	"fmt"
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outboxrelay/outbox"
	"github.com/outboxrelay/outbox/internal/planted"
)

// operatorPlans runs a call as an operator does, in a transaction that is rolled back, and returns the plans.
func (r *planRecorder) operatorPlans(t testing.TB, sql string, args ...any) string {
	t.Helper()
	tx, err := r.conn.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), planSettingsSQL); err != nil {
		t.Fatal(err)
	}
	r.take()
	if _, err := tx.Exec(t.Context(), sql, args...); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	// The plan of a statement is told when its portal closes, with the next statement.
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	return r.take()
}

// checkOperatorPlan finds scans of whole tables. The ledger and the lists of pauses and operations are short.
func checkOperatorPlan(t testing.TB, what, plan string) {
	t.Helper()
	whole := regexp.MustCompile(`.*(Seq Scan on (message|waiting|dead|archive)|Bitmap Heap Scan on (message|archive)|Index Scan using message_pkey.*\n.*\n.*Filter.*key|Hash (Right )?(Anti |Semi )?Join\s.*\n.*(message|waiting|dead)).*`)
	if found := whole.FindString(plan); found != "" {
		t.Errorf("%s: the plan has %q:\n%s", what, found, plan)
	}
	if plan == "" {
		t.Errorf("%s: no plan was seen", what)
	}
}

// TestOperatorPlansUseIndexes, with right statistics and with none.
func TestOperatorPlansUseIndexes(t *testing.T) {
	t.Parallel()
	url := migratedDatabase(t)
	conn, store := connect(t, url), newStore(t, url, nil)
	insert(t, conn, "a", 3000, 100)
	relay := newTestRelay(t, store, ">")
	relay.settle(t, outbox.Died, relay.claim(t, 1000)...)
	relay.settle(t, outbox.Retried, relay.claim(t, 1000)...)
	relay.claim(t, 10)
	addPartitions(t, conn, time.Now().Format(time.RFC3339), "1d")
	fillDay(t, conn, time.Now().Truncate(24*time.Hour), 3000)
	archived := value[outbox.ID](t, conn, "select id from outbox.archive limit 1")
	exec(t, conn, "update outbox.waiting set destination = (array['lane', 'gone'])[1 + seq % 2] where seq % 3 = 0")
	exec(t, conn, "update outbox.dead set destination = 'gone' where seq % 3 = 0")
	for _, statistics := range []string{"analyze", "delete from pg_statistic"} {
		exec(t, conn, statistics)
		r := newPlanRecorder(t, url)
		for _, call := range []string{
			"outbox.redrive(everything => true, batch => 10)", "outbox.redrive(topic => 'a', error_class => 'error', batch => 10)",
			"outbox.redrive(key => 'k1', older_than => '1 s')", "outbox.retry(key => 'k1', batch => 10)",
			"outbox.retry(destination => 'gone', by_route => true, batch => 10)", "outbox.redrive(destination => 'gone', by_route => true, batch => 10)",
			"outbox.discard(destination => 'gone', reason => 'test', batch => 10)", "outbox.retry(destination => 'gone', by_route => true, dry_run => true)",
			"outbox.discard(key => 'k1', reason => 'test', batch => 10)", "outbox.discard(topic => 'a', reason => 'test', batch => 10)",
			"outbox.purge(topic => 'a.1', batch => 10)", "outbox.purge(states => '{delivered}', older_than => '1 s', rate => 10, batch => 10)",
			"outbox.purge(states => '{dead}', topic => 'a', batch => 10)", "outbox.replay('lane', topic => 'a.1', batch => 10)",
			"outbox.replay('lane', ids => array['" + archived.String() + "'::uuid])", "outbox.expire_archive(now(), 10)",
			"outbox.operations()",
		} {
			checkOperatorPlan(t, call+" after "+statistics, r.operatorPlans(t, "select * from "+call))
		}
		for _, table := range []string{"message", "waiting", "dead", "archive"} {
			for _, key := range []any{nil, "k1"} {
				for _, destination := range []any{nil, "gone"} {
					checkOperatorPlan(t, fmt.Sprintf("list of %s, key %v, destination %v, after %s", table, key, destination, statistics),
						r.operatorPlans(t, listSQL, pgx.QueryExecModeExec, table, 100, 0, 500, 20, "a.>", key, nil, nil, nil, nil,
							[]string{"ready", "waiting", "dead", "delivered"}, true, destination))
				}
			}
		}
		checkOperatorPlan(t, "show after "+statistics, r.operatorPlans(t, showSQL, pgx.QueryExecModeExec, 3000, archived))
		checkOperatorPlan(t, "dead letters after "+statistics, r.operatorPlans(t, deadLettersSQL, pgx.QueryExecModeExec))
		checkOperatorPlan(t, "message_state after "+statistics, r.operatorPlans(t, messageStateSQL, pgx.QueryExecModeExec, 3000))
		checkOperatorPlan(t, "key_head after "+statistics, r.operatorPlans(t, keyHeadSQL, pgx.QueryExecModeExec, "k1", 3000, "a", nil, false))
		checkOperatorPlan(t, "key_head of a bound one after "+statistics, r.operatorPlans(t, keyHeadSQL, pgx.QueryExecModeExec, "k1", 3000, "a", "lane", false))
		checkOperatorPlan(t, "key_head of whatever after "+statistics, r.operatorPlans(t, keyHeadSQL, pgx.QueryExecModeExec, "k1", 3000, nil, nil, true))
		checkOperatorPlan(t, "dead of a key after "+statistics, r.operatorPlans(t, deadOfKeySQL, pgx.QueryExecModeExec, "k1", behindBound))
		checkOperatorPlan(t, "the end after "+statistics, r.operatorPlans(t, endedSQL, pgx.QueryExecModeExec, archived))
		checkOperatorPlan(t, "stranded after "+statistics, r.operatorPlans(t, statusStrandedSQL, pgx.QueryExecModeExec, strandedBound))
		checkOperatorPlan(t, "keys after "+statistics, r.operatorPlans(t, keysSQL, pgx.QueryExecModeExec, 101, 1000))
	}
}

func TestOperatorPlanCheckFires(t *testing.T) {
	t.Parallel()
	for _, plan := range []string{"Seq Scan on message m", "Bitmap Heap Scan on message m", "Index Scan using message_pkey on message m  \n  Index Cond: (seq < 1)\n  Filter: (key = 'k')", "", "Hash Join \n  ->  Index Scan on waiting", "Hash Right Anti Join \n  ->  Index Scan on waiting"} {
		if planted.Failures(t, func(t testing.TB) { checkOperatorPlan(t, "planted", plan) }) == "" {
			t.Errorf("not found: %q", plan)
		}
	}
}

// tooLong is many times what a bounded answer takes on a busy machine.
const tooLong = 15 * time.Second

// operatorsAreBounded: on 100,000 messages of a hundred keys, one of them blocked, and among 100,000 dead ones, each answer
// comes soon.
func operatorsAreBounded(t *testing.T, conn *pgx.Conn, store *Store) {
	t.Helper()
	exec(t, conn, `insert into outbox.waiting (seq, id, topic, key, payload, attempts, holds, available_at, error_class, last_error)
		values (0, gen_random_uuid(), 'a', 'k1', '', 5, true, clock_timestamp() + interval '1 hour', 'error', 'x')`)
	exec(t, conn, `insert into outbox.message (id, topic, key, payload) select outbox.new_id(), 'a', 'k1', '' from generate_series(1, 100)`)
	exec(t, conn, `insert into outbox.dead (seq, id, topic, key, payload, headers, published_at, error_class, last_error)
		select nextval('outbox.seq'), gen_random_uuid(), 'a', 'd' || g, '', '{}', now(), 'error', 'x' from generate_series(1, 100000) g`)
	exec(t, conn, "analyze outbox.message, outbox.waiting, outbox.dead")
	last := value[outbox.ID](t, conn, "select id from outbox.message where key = 'k1' order by seq desc limit 1")
	dead := value[outbox.ID](t, conn, "select id from outbox.dead order by seq desc limit 1")
	within := func(what string, do func() error) {
		t.Helper()
		begin := time.Now()
		if err := do(); err != nil {
			t.Errorf("%s: %v", what, err)
		}
		if took := time.Since(begin); took > tooLong {
			t.Errorf("%s took %v", what, took)
		} else {
			t.Logf("%s took %v", what, took)
		}
	}
	within("keys", func() error {
		keys, err := store.Keys(t.Context(), 0)
		blocked := func(h outbox.KeyHold) bool {
			return h.Key == "k1" && h.State == outbox.HoldRetrying && h.Behind == outbox.Depth{Messages: 1000, AtLeast: true}
		}
		if err == nil && !slices.ContainsFunc(keys.Holds, blocked) {
			err = fmt.Errorf("%+v", keys)
		}
		return err
	})
	within("why of the last", func() error {
		w, err := store.Why(t.Context(), outbox.WhyQuery{ID: last})
		if err == nil && (w.Head == nil || w.Head.Seq != 0 || w.Message.ID != last) {
			err = fmt.Errorf("%+v", w)
		}
		return err
	})
	within("why of a key", func() error { _, err := store.Why(t.Context(), outbox.WhyQuery{Key: "k1"}); return err })
	within("why of nothing", func() error {
		w, err := store.Why(t.Context(), outbox.WhyQuery{ID: outbox.NewID()})
		if err == nil && w.Message != nil {
			err = fmt.Errorf("%+v", w.Message)
		}
		return err
	})
	within("a page of the list", func() error {
		page, err := store.List(t.Context(), outbox.ListQuery{Filter: outbox.Filter{Topic: "nowhere"}})
		if err == nil && (len(page.Messages) > 0 || page.Next == "") {
			err = fmt.Errorf("%d messages, then %q", len(page.Messages), page.Next)
		}
		return err
	})
	within("show", func() error {
		list, err := store.Show(t.Context(), last)
		if err == nil && len(list) != 1 {
			err = fmt.Errorf("%+v", list)
		}
		return err
	})
	within("dead letters", func() error {
		letters, err := store.DeadLetters(t.Context())
		if err == nil && (len(letters.Groups) != 1 || letters.Groups[0].Messages != 100_000) {
			err = fmt.Errorf("%+v", letters)
		}
		return err
	})
	within("redrive of one", func() error {
		r, err := store.Redrive(t.Context(), outbox.Change{Filter: outbox.Filter{IDs: []outbox.ID{dead}}})
		if err == nil && r.Changed != 1 {
			err = fmt.Errorf("%+v", r)
		}
		return err
	})
	within("discard of one", func() error {
		r, err := store.Discard(t.Context(), outbox.Change{Filter: outbox.Filter{IDs: []outbox.ID{last}}, Reason: "test"})
		if err == nil && r.Changed != 1 {
			err = fmt.Errorf("%+v", r)
		}
		return err
	})
	within("one batch of everything", func() error {
		_, err := conn.Exec(t.Context(), "select outbox.redrive(everything => true)")
		return err
	})
}

// TestLocate: whatever the id and the clock of its maker, a message is found.
func TestLocate(t *testing.T) {
	t.Parallel()
	url := migratedDatabase(t)
	conn := connect(t, url)
	exec(t, conn, `insert into outbox.message (id, topic, payload, published_at)
		select outbox.new_id(), 'a', '', clock_timestamp() - interval '3 hours' + g * interval '1 second' from generate_series(1, 7000) g order by g`)
	for name, id := range map[string]string{
		"of version 4": "gen_random_uuid()", "of version 7": "outbox.new_id()", "from the past": "'0147eb3c-0000-7000-8000-000000000001'",
		"from the future": "'0fffeb3c-0000-7000-8000-000000000001'",
	} {
		found := value[outbox.ID](t, conn, "insert into outbox.message (id, topic, payload) values ("+id+", 'a', '') returning id")
		seq := value[int64](t, conn, "select seq from outbox.message where id = $1", found)
		if got := values[int64](t, conn, "select l.seq from outbox.locate(array[$1::uuid]) l", found); len(got) != 1 || got[0] != seq {
			t.Errorf("%s: found at %v, is at %d", name, got, seq)
		}
	}
	if got := values[int64](t, conn, "select l.seq from outbox.locate(array[gen_random_uuid(), outbox.new_id()]) l"); len(got) != 0 {
		t.Errorf("found what is not there: %v", got)
	}
	for _, at := range []int{0, 1, 3000, 7000, 8000} {
		want := value[*int64](t, conn, `select min(m.seq) from outbox.message m where m.topic = 'a' and m.published_at >=
			(select min(x.published_at) from outbox.message x) + ($1 - 1) * interval '1 second'`, at)
		got := value[int64](t, conn, `select outbox.seq_at((select min(x.published_at) from outbox.message x) + ($1 - 1) * interval '1 second')`, at)
		if want != nil && got != *want {
			t.Errorf("second %d begins at %d, want %d", at, got, *want)
		}
	}
}
