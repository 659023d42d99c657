package pgstore

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/outboxrelay/outbox"
	"github.com/outboxrelay/outbox/internal/planted"
)

// planRecorder is a connection that sees the plans of all statements, those inside functions included.
type planRecorder struct {
	conn  *pgx.Conn
	plans []string
}

func newPlanRecorder(t testing.TB, url string) *planRecorder {
	t.Helper()
	cfg, err := pgx.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	r := &planRecorder{}
	cfg.OnNotice = func(_ *pgconn.PgConn, n *pgconn.Notice) {
		if strings.Contains(n.Message, "plan:") {
			r.plans = append(r.plans, n.Message)
		}
	}
	if r.conn, err = pgx.ConnectConfig(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.conn.Close(t.Context()) })
	exec(t, r.conn, "load 'auto_explain'")
	for _, setting := range []string{"auto_explain.log_min_duration = 0", "auto_explain.log_nested_statements = on",
		"client_min_messages = log"} {
		exec(t, r.conn, "set "+setting)
	}
	r.plans = nil
	return r
}

var planNumbers = regexp.MustCompile(`\(cost=[^)]*\)|duration: [0-9.]+ ms`)

// take returns the shape of the plans since the last take: without costs and the text of the query.
func (r *planRecorder) take() string {
	var b strings.Builder
	for _, p := range r.plans {
		_, nodes, found := strings.Cut(p, "\n")
		if at := planNode.FindStringIndex(p); found && at != nil {
			nodes = p[at[0]:]
		}
		b.WriteString(planNumbers.ReplaceAllString(nodes, "") + "\n")
	}
	r.plans = nil
	return b.String()
}

var planNode = regexp.MustCompile(`(?m)^[A-Z][A-Za-z ]+  \(cost=`)

// claimPlan claims 50 of what the database holds, by outbox.choose and by outbox.choose_plain, and returns the plans.
func (r *planRecorder) claimPlan(t testing.TB, relay outbox.ID) string {
	t.Helper()
	const streamed = "{1,2,30}"
	return r.claimPlanOf(t, relay, "{1,2}", nil) + r.claimPlanOf(t, relay, "{}", nil) +
		r.claimPlanOf(t, relay, "{1,2}", streamed) + r.claimPlanOf(t, relay, "{}", streamed)
}

// claimPlanOf claims in a transaction that is rolled back.
func (r *planRecorder) claimPlanOf(t testing.TB, relay outbox.ID, offered string, streamed any) string {
	t.Helper()
	tx, err := r.conn.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	r.take()
	if _, err := tx.Exec(t.Context(), `select outbox.claim($1, 'lane', gen_random_uuid(), 50, 1000000, true, null,
		20, true, 100, false, '-infinity', 0, 500, '{k1,k2}', $2, '{}', 8, 0, 0, 0, 0, 0, '{}', false, $3::text::bigint[])`, relay, offered, streamed); err != nil {
		t.Fatal(err)
	}
	plans := r.take()
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	return plans
}

func TestClaimPlanUsesIndexesWhateverTheStatistics(t *testing.T) {
	t.Parallel()
	url := migratedDatabase(t)
	conn := connect(t, url)
	insert(t, conn, "a", 2000, 100)
	relay := newTestRelay(t, newStore(t, url, nil), ">")
	exec(t, conn, "analyze")
	want := newPlanRecorder(t, url).claimPlan(t, relay.info.ID)
	checkClaimPlan(t, want)
	for _, falsified := range []string{
		"update pg_class set reltuples = %s, relpages = %s where relname = 'claim'",
		"update pg_class set reltuples = %s, relpages = %s where relname = 'message'",
		"update pg_class set reltuples = %s, relpages = %s where relname in ('waiting', 'dead')",
	} {
		for _, size := range []string{"0", "10000000", "1000000000"} {
			sql := fmt.Sprintf(falsified, size, size)
			exec(t, conn, sql)
			if got := newPlanRecorder(t, url).claimPlan(t, relay.info.ID); got != want {
				t.Errorf("after %s the plan is\n%s", sql, firstDifference(got, want))
			}
		}
		exec(t, conn, "analyze")
	}
	exec(t, conn, "delete from pg_statistic")
	if got := newPlanRecorder(t, url).claimPlan(t, relay.info.ID); got != want {
		t.Errorf("without statistics the plan is\n%s", firstDifference(got, want))
	}
	// The few relays may be sorted or hashed: since PostgreSQL 18 a scan that is switched off hides no difference of costs.
	for _, size := range []string{"0", "10000000"} {
		exec(t, conn, fmt.Sprintf("update pg_class set reltuples = %[1]s, relpages = %[1]s where relname = 'relay'", size))
		checkClaimPlan(t, newPlanRecorder(t, url).claimPlan(t, relay.info.ID))
	}
}

// checkClaimPlan finds what must never be in the plan of a claim.
func checkClaimPlan(t testing.TB, plan string) {
	t.Helper()
	for _, never := range []string{
		`Seq Scan on (message|waiting|dead|claim)`, `Bitmap`, `Merge Join`, `Hash (Right )?(Anti )?Join\s.*\n.*(message|waiting|dead)`,
	} {
		if found := regexp.MustCompile(never).FindString(plan); found != "" {
			t.Errorf("the plan has %q:\n%s", found, plan)
		}
	}
	for _, always := range []string{
		"Index Scan using message_pkey on message", "Index Only Scan using message_key on message",
		"Index Scan using waiting_key on waiting", "Index Scan using waiting_suspect on waiting",
		"Index Scan using dead_key on dead", "hashed SubPlan",
	} {
		if !strings.Contains(plan, always) {
			t.Errorf("the plan has no %q:\n%s", always, plan)
		}
	}
}

func firstDifference(got, want string) string {
	g, w := strings.Split(got, "\n"), strings.Split(want, "\n")
	for i := range g {
		if i >= len(w) || g[i] != w[i] {
			return fmt.Sprintf("line %d: %s\nwanted: %s", i, strings.Join(g[i:min(i+8, len(g))], "\n"), strings.Join(w[i:min(i+8, len(w))], "\n"))
		}
	}
	return "shorter"
}

func TestClaimPlanCheckFires(t *testing.T) {
	t.Parallel()
	said := planted.Failures(t, func(t testing.TB) { checkClaimPlan(t, "Seq Scan on message m") })
	if n := strings.Count(said, "the plan has"); n < 7 {
		t.Errorf("a sequential scan without any index was reported %d times:\n%s", n, said)
	}
}
