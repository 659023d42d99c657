package outboxtest

import (
	"bytes"
	"context"
	"database/sql"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/outboxrelay/outbox"
)

// Rows is what a query returns, as pgx has it.
type Rows interface {
	Next() bool
	Scan(dest ...any) error
	Err() error
	Close()
}

// QueryTx is a transaction whose queries return R. A pgx.Tx is one; it is described and not named, so that no driver
// is imported.
type QueryTx[R Rows] interface {
	Query(ctx context.Context, sql string, args ...any) (R, error)
}

// SQLTx is what *sql.Tx and the transactions of ORMs have in common.
type SQLTx interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// RequirePublished ends the test unless the open transaction has published exactly the wanted messages, in this
// order; without any, that it has published none. Call it before the commit, with a pgx.Tx. The type parameter is
// inferred.
//
// Of a wanted message Topic, Key, Payload, ContentType, DedupKey and each of the Headers are compared, where they are
// set; everything else, ids and times above all, is ignored. The outbox is in the schema "outbox".
func RequirePublished[R Rows](t testing.TB, tx QueryTx[R], want ...outbox.Message) {
	t.Helper()
	RequirePublishedIn(t, defaultSchema, tx, want...)
}

// RequirePublishedIn is RequirePublished for an outbox in another schema.
func RequirePublishedIn[R Rows](t testing.TB, schema string, tx QueryTx[R], want ...outbox.Message) {
	t.Helper()
	rows, err := tx.Query(t.Context(), publishedQuery(schema))
	if err != nil {
		t.Fatalf("read what the transaction has published: %v", err)
	}
	defer rows.Close()
	requireMessages(t, rows, want)
}

// RequirePublishedSQL is RequirePublished for a transaction of database/sql.
func RequirePublishedSQL(t testing.TB, tx SQLTx, want ...outbox.Message) {
	t.Helper()
	RequirePublishedSQLIn(t, defaultSchema, tx, want...)
}

// RequirePublishedSQLIn is RequirePublishedSQL for an outbox in another schema.
func RequirePublishedSQLIn(t testing.TB, schema string, tx SQLTx, want ...outbox.Message) {
	t.Helper()
	rows, err := tx.QueryContext(t.Context(), publishedQuery(schema))
	if err != nil {
		t.Fatalf("read what the transaction has published: %v", err)
	}
	defer rows.Close()
	requireMessages(t, rows, want)
}

const defaultSchema = "outbox"

//go:embed published.sql
var publishedSQL string

// publishedQuery is published.sql for a schema.
func publishedQuery(schema string) string {
	quoted := `"` + strings.ReplaceAll(schema, `"`, `""`) + `"`
	return strings.ReplaceAll(publishedSQL, "from outbox.", "from "+quoted+".")
}

// scanner is what pgx's and database/sql's rows have in common.
type scanner interface {
	Next() bool
	Scan(dest ...any) error
	Err() error
}

func requireMessages(t testing.TB, rows scanner, want []outbox.Message) {
	t.Helper()
	got, err := scanMessages(rows)
	if err != nil {
		t.Fatalf("read what the transaction has published: %v", err)
	}
	if diff := diffMessages(got, want); diff != "" {
		t.Fatalf("the transaction has not published the wanted messages (- wanted, + published):\n%s", diff)
	}
}

func scanMessages(rows scanner) (ms []outbox.Message, err error) {
	for rows.Next() {
		var d outbox.Delivery
		var text string
		if err := rows.Scan(&d.Topic, &d.Key, &d.Payload, &text, &d.DedupKey); err != nil {
			return nil, err
		}
		headers := map[string]string{}
		if err := json.Unmarshal([]byte(text), &headers); err != nil {
			return nil, errors.Join(errors.New("headers"), err)
		}
		d.SetHeaders(headers)
		ms = append(ms, d.Message)
	}
	return ms, rows.Err()
}

// diffMessages compares place by place; "" if all match.
func diffMessages(got, want []outbox.Message) string {
	var diff strings.Builder
	same := true
	for i := range max(len(got), len(want)) {
		if i < len(got) && i < len(want) && matches(got[i], want[i]) {
			fmt.Fprintf(&diff, "  %d  %s\n", i+1, describe(got[i]))
			continue
		}
		same = false
		if i < len(want) {
			fmt.Fprintf(&diff, "- %d  %s\n", i+1, describe(want[i]))
		}
		if i < len(got) {
			fmt.Fprintf(&diff, "+ %d  %s\n", i+1, describe(got[i]))
		}
	}
	if same {
		return ""
	}
	return diff.String()
}

// matches reports whether everything that is set in want is the same in got.
func matches(got, want outbox.Message) bool {
	for _, field := range [][2]string{
		{got.Topic, want.Topic}, {got.Key, want.Key}, {got.ContentType, want.ContentType}, {got.DedupKey, want.DedupKey},
	} {
		if field[1] != "" && field[0] != field[1] {
			return false
		}
	}
	for name, value := range want.Headers {
		if !hasHeader(got.Headers, name, value) {
			return false
		}
	}
	return want.Payload == nil || bytes.Equal(got.Payload, want.Payload)
}

// hasHeader finds a header without regard to the case of its name.
func hasHeader(headers map[string]string, name, value string) bool {
	for n, v := range headers {
		if strings.EqualFold(n, name) {
			return v == value
		}
	}
	return false
}

// describe shows what is compared.
func describe(m outbox.Message) string {
	const readable = 200
	s := m.Topic
	if s == "" {
		s = "(any topic)"
	}
	for _, field := range []struct{ name, value string }{
		{"key", m.Key}, {"dedup key", m.DedupKey}, {"content type", m.ContentType},
	} {
		if field.value != "" {
			s += fmt.Sprintf(" %s=%q", field.name, field.value)
		}
	}
	if len(m.Headers) > 0 {
		s += fmt.Sprintf(" headers=%q", m.Headers)
	}
	switch {
	case len(m.Payload) > readable:
		s += fmt.Sprintf(" payload=%q… (%d bytes)", m.Payload[:readable], len(m.Payload))
	case m.Payload != nil:
		s += fmt.Sprintf(" payload=%q", m.Payload)
	}
	return s
}
