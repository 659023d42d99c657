package sqlitestore

import (
	"slices"
	"testing"

	"github.com/outboxrelay/outbox/storetest"
)

// TestSameCases: SQLite passes the cases that the store in memory and PostgreSQL pass, which are all there are, but for
// the two in which a transaction commits late, since there can be none, and those about settling in a transaction of
// the handler's, which it does not offer. That each store passes what its features leave is demanded by storetest.Run.
func TestSameCases(t *testing.T) {
	elsewhere := storetest.NotApplicable(storetest.Features{Notifications: true, OwnSettle: true, Archive: true})
	if len(elsewhere) != 0 {
		t.Errorf("cases that do not apply to the store in memory and PostgreSQL: %q", elsewhere)
	}
	features := (&harness{}).Features()
	features.OwnSettle = true // left out of the comparison: they are the feature
	got := storetest.NotApplicable(features)
	want := []string{"a suspect waits for an older message of its key", "a suspect that waits for its key keeps no other suspect waiting"}
	if !slices.Equal(got, want) {
		t.Errorf("cases that do not apply to SQLite: %q, want %q", got, want)
	}
	if n := len(storetest.NotApplicable(storetest.Features{OwnSettle: true, Archive: true})); n != 5 {
		t.Errorf("%d cases are about notifications", n)
	}
}
