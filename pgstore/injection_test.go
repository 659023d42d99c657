package pgstore

import (
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/outboxrelay/outbox"
)

// injections would change what a statement does if they got into its text, or what a pattern means.
var injections = []string{
	`'; delete from outbox.message; --`, `" or "1"="1`, `$1`, `%`, `_`, `k' or 'a'='a`, `\`, `{"a","b"}`, `NULL`, `.*`, `%s%I%L`, `$query$; select 1; $query$`,
}

// TestInjections: whatever a filter's texts are, a change means those messages that have exactly them.
func TestInjections(t *testing.T) {
	t.Parallel()
	url := migratedDatabase(t)
	conn := connect(t, url)
	store := newStore(t, url, nil)
	for _, text := range append(injections, "other") {
		err := store.InTx(t.Context(), func(tx pgx.Tx) error {
			_, err := store.Publish(t.Context(), tx, outbox.Message{Topic: "a", Key: text, DedupKey: text, Headers: map[string]string{"X": text}})
			return err
		})
		if err != nil {
			t.Fatalf("%q: %v", text, err)
		}
	}
	left := len(injections) + 1
	count := func() int { return value[int](t, conn, "select count(*) from outbox.message") }
	if count() != left {
		t.Fatalf("%d messages, want %d", count(), left)
	}
	for _, text := range injections {
		for name, filter := range map[string]outbox.Filter{"class": {Class: text}, "text": {Text: text}} {
			if r, err := store.Discard(t.Context(), outbox.Change{Filter: filter, Reason: text, Actor: text}); err != nil || r.Changed != 0 {
				t.Errorf("%s %q: %+v, %v", name, text, r, err)
			}
		}
		var refused *outbox.FieldError
		if _, err := store.Discard(t.Context(), outbox.Change{Filter: outbox.Filter{Topic: text}, Reason: "test"}); outbox.CheckTopic(text) != nil && (!errors.As(err, &refused) || refused.Field != "Topics") {
			t.Errorf("topic %q: %v", text, err)
		}
		if _, err := store.Why(t.Context(), outbox.WhyQuery{Key: text}); err != nil {
			t.Errorf("why %q: %v", text, err)
		}
		r, err := store.Discard(t.Context(), outbox.Change{Filter: outbox.Filter{Key: text}, Reason: text, Actor: text})
		if left--; err != nil || r.Changed != 1 || count() != left {
			t.Errorf("key %q: %+v, %v, %d are left of %d", text, r, err, count(), left)
		}
	}
	if key := value[string](t, conn, "select key from outbox.message"); key != "other" {
		t.Errorf("the message of key %q is left", key)
	}
}

// TestInjectionsBySQL: the functions for operators refuse as topics what is none, so that it cannot become a part of a
// regular expression.
func TestInjectionsBySQL(t *testing.T) {
	t.Parallel()
	conn := connect(t, migratedDatabase(t))
	for _, text := range injections {
		if outbox.CheckTopic(text) == nil {
			continue
		}
		for _, call := range []string{"retry(topic => $1)", "redrive(topic => $1)", "discard(topic => $1)", "pause(topic => $1)"} {
			_, err := conn.Exec(t.Context(), "select outbox."+call, text)
			if state, _ := sqlError(err); state != "22023" {
				t.Errorf("%s of %q: %v", call, text, err)
			}
		}
	}
}
