package sqlitestore

import (
	"context"
	"database/sql"
	"strings"
	"testing"
)

// plan is what SQLite says about a query.
func plan(t testing.TB, db *sql.DB, query string, args ...any) string {
	t.Helper()
	rows, err := db.QueryContext(context.Background(), "explain query plan "+query, args...)
	if err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	defer rows.Close()
	var b strings.Builder
	for rows.Next() {
		var id, parent, unused int
		var detail string
		if err := rows.Scan(&id, &parent, &unused, &detail); err != nil {
			t.Fatal(err)
		}
		b.WriteString(detail + "\n")
	}
	return b.String()
}

func TestPlansPrint(t *testing.T) {
	db := openFile(t, migratedFile(t))
	s := newStore(t, db, nil)
	for _, name := range []string{"claim_listed", "claim_suspects", "claim_due", "claim_window", "claim_line", "claim_next_due", "claim_fetch", "claim_fence", "settle_look", "topics", "state_by_id", "state_of_key", "change_page", "change_match"} {
		args := make([]any, 13)
		n := 0
		for i := range args {
			args[i] = 1
			if strings.Contains(s.sql[name], "?"+string(rune('1'+i))) {
				n = i + 1
			}
		}
		if name == "change_match" {
			n = 13
		}
		t.Logf("%s:\n%s", name, plan(t, db, s.sql[name], args[:n]...))
	}
}
