package sqlitestore

import (
	"database/sql"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/outboxrelay/outbox"
)

// bounded are the queries of publishing, claiming and settling: none reads a table from end to end. The ledger of claims
// and the registry of relays are small.
var bounded = []string{"name_taken", "claim_listed", "claim_suspects", "claim_due", "claim_window", "claim_line", "claim_keys", "claim_runs", "claim_next_due",
	"claim_fence", "claim_fetch", "claim_hold", "delete_empty_claims", "settle_look", "settle_retry_message", "settle_retry_waiting",
	"settle_die_message", "settle_die_waiting", "settle_end_message", "settle_end_waiting", "settle_unlist", "settle_give_back",
	"settle_awaited", "topics", "expire_dedup", "state_by_id", "state_of_key", "behind", "before", "walk", "walk_key", "walk_ids",
	"redrive", "retry", "delete_dead", "claims_of", "awaited", "live_held", "archive_ended", "expire_archive", "delete_archived",
	"replay_look", "replay", "stored", "show", "status_stranded", "bound", "dead_of_key", "ended", "reroute"}

// ordered are the queries that begin anywhere in a place and end after so many: they read in order and do not sort.
var ordered = []string{"walk", "walk_key", "claim_due", "claim_window"}

// TestPlans: whatever is in the tables, and without any statistics.
func TestPlans(t *testing.T) {
	db := openFile(t, migratedFile(t))
	s := newStore(t, db, nil)
	for _, name := range bounded {
		for _, problem := range scans(plan(t, db, s.sql[name])) {
			t.Errorf("%s: %s", name, problem)
		}
	}
	for _, name := range ordered {
		if p := plan(t, db, s.sql[name]); sorts(p) {
			t.Errorf("%s sorts:\n%s", name, p)
		}
	}
	// Its probes follow the order of their index; the recursive table hides a scan.
	probes := func() bool { return !strings.Contains(plan(t, db, s.sql["status_stranded"]), "TEMP B-TREE") }
	if !probes() {
		t.Errorf("status_stranded sorts:\n%s", plan(t, db, s.sql["status_stranded"]))
	}
	execSQL(t, db, "drop index outbox_waiting_bound")
	if probes() {
		t.Error("no sorting is seen without the index")
	}
	// In a view whose parts have columns of different types it would.
	execSQL(t, db, strings.ReplaceAll(`drop view outbox_stored; `+viewOf(t, db, "outbox_stored"), "cast(0 as integer)", "0"))
	if p := plan(t, db, s.sql["walk"]); !sorts(p) {
		t.Errorf("no sorting is seen where there is one:\n%s", p)
	}
}

func sorts(plan string) bool {
	return strings.Contains(plan, "B-TREE") || strings.Contains(plan, "CO-ROUTINE")
}

func viewOf(t *testing.T, db *sql.DB, name string) string {
	t.Helper()
	return text(t, db, "select sql from sqlite_schema where name = ?", name)
}

// TestPlansFire: without an index the same look finds the scan.
func TestPlansFire(t *testing.T) {
	db := openFile(t, migratedFile(t))
	s := newStore(t, db, nil)
	for index, query := range map[string]string{"outbox_listed_key": "claim_line", "outbox_waiting_available": "claim_due",
		"outbox_waiting_id": "state_by_id", "outbox_message_topic": "topics",
		"outbox_archive_ended": "expire_archive", "outbox_archive_id": "show", "outbox_dead_id": "walk_ids",
		"outbox_dead_key": "dead_of_key"} {
		if _, err := db.ExecContext(t.Context(), "drop index "+index); err != nil {
			t.Fatal(err)
		}
		if scans(plan(t, db, s.sql[query])) == nil {
			t.Errorf("%s: no scan is seen without %s:\n%s", query, index, plan(t, db, s.sql[query]))
		}
	}
}

var (
	parameter = regexp.MustCompile(`\?(\d+)`)
	// scanned is a table, by its name or an alias, or an index of one, read from end to end; SEARCH without USING is that too.
	scanned = regexp.MustCompile(`^(SCAN (outbox_)?(message|waiting|dead|listed|dedup|archive|m|w|d|l|x|a)\b|SEARCH (outbox_\w+|[mwdlxa])$)`)
	// The recursive tables of topics.sql have letters of tables too.
	recursive = regexp.MustCompile(`^SCAN [mwd]$`)
)

// scans are the lines of a plan that read a table from end to end.
func scans(plan string) (found []string) {
	for line := range strings.Lines(plan) {
		line = strings.TrimSpace(line)
		harmless := strings.Contains(plan, "RECURSIVE STEP") && recursive.MatchString(line)
		if scanned.MatchString(line) && !harmless && !strings.Contains(line, "VIRTUAL TABLE") {
			found = append(found, line)
		}
	}
	return found
}

// plan is what SQLite says about a query.
func plan(t testing.TB, db *sql.DB, query string) (text string) {
	t.Helper()
	most := 0
	for _, found := range parameter.FindAllStringSubmatch(query, -1) {
		n := 0
		fmt.Sscan(found[1], &n)
		most = max(most, n)
	}
	args := slices.Repeat([]any{1}, most)
	rows, err := db.QueryContext(t.Context(), "explain query plan "+query, args...)
	if err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	defer rows.Close()
	for rows.Next() {
		var id, parent, unused int
		var detail string
		if err := rows.Scan(&id, &parent, &unused, &detail); err != nil {
			t.Fatal(err)
		}
		text += detail + "\n"
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return text
}

// TestClaimsPassWhatIsBlocked: a thousand times as many messages behind a held key cost claims a look each, once.
func TestClaimsPassWhatIsBlocked(t *testing.T) {
	db := openFile(t, migratedFile(t))
	s := newStore(t, db, nil)
	relay := outbox.RelayInfo{ID: outbox.NewID(), Lease: lease, Lanes: []outbox.LaneInfo{{Destination: "d",
		Topics: outbox.TopicSet{{Pattern: ">", In: true}}}}}
	if _, err := s.Beat(t.Context(), relay, nil); err != nil {
		t.Fatal(err)
	}
	const behind = 5000
	ms := make([]outbox.Message, behind)
	for i := range ms {
		ms[i] = outbox.Message{Topic: "a", Key: "held"}
	}
	publish(t, s, outbox.Message{Topic: "a", Key: "held"})
	claimOne := func() outbox.Batch {
		t.Helper()
		batch, err := s.Claim(t.Context(), outbox.ClaimQuery{Relay: relay.ID, Destination: "d", Token: outbox.NewID(), Limit: 1, Bytes: 1 << 20})
		if err != nil {
			t.Fatal(err)
		}
		return batch
	}
	held := claimOne().Claims[0].Deliveries[0]
	publish(t, s, ms...)
	publish(t, s, outbox.Message{Topic: "a"})
	claims := 0
	for batch := claimOne(); len(batch.Claims) == 0; batch = claimOne() {
		if claims++; !batch.More || claims > behind/100 {
			t.Fatalf("claim %d found nothing, more: %v", claims, batch.More)
		}
	}
	publish(t, s, outbox.Message{Topic: "a"})
	if len(claimOne().Claims) == 0 {
		t.Error("the next message is not found at once: the claim has walked over what is blocked again")
	}
	answers, err := s.Settle(t.Context(), []outbox.Outcome{{Claim: held.Claim, Seq: held.Seq, Kind: outbox.Delivered}})
	if err != nil || answers[0] != outbox.SettledNow {
		t.Fatal(answers, err)
	}
	if batch := claimOne(); len(batch.Claims) == 0 || batch.Claims[0].Deliveries[0].Key != "held" {
		t.Errorf("the freed key is not claimed at once: %+v", batch)
	}
}
