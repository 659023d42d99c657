package outboxtest

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/outboxrelay/outbox"
	"github.com/outboxrelay/outbox/internal/planted"
)

// fakeTx answers each query with the same rows.
type fakeTx struct {
	rows  [][]any
	err   error // of the query
	after error // of the rows
	sql   string
}

func (tx *fakeTx) Query(_ context.Context, sql string, _ ...any) (*fakeRows, error) {
	tx.sql = sql
	return &fakeRows{tx: tx}, tx.err
}

type fakeRows struct {
	tx *fakeTx
	at int
}

func (r *fakeRows) Next() bool {
	r.at++
	return r.at <= len(r.tx.rows)
}

func (r *fakeRows) Scan(dest ...any) error {
	for i, value := range r.tx.rows[r.at-1] {
		switch to := dest[i].(type) {
		case *string:
			*to = value.(string)
		case *[]byte:
			*to = []byte(value.(string))
		}
	}
	return nil
}

func (r *fakeRows) Err() error { return r.tx.after }
func (r *fakeRows) Close()     {}

func two() *fakeTx {
	return &fakeTx{rows: [][]any{
		{"orders.created", "o1", `{"id":1}`, `{"Content-Type":"application/json","Tenant":"a"}`, ""},
		{"orders.paid", "", "", "{}", "d"},
	}}
}

func TestRequirePublishedPasses(t *testing.T) {
	second := outbox.Message{Topic: "orders.paid", DedupKey: "d", Payload: []byte{}}
	for _, first := range []outbox.Message{
		{},
		{Topic: "orders.created"},
		{Topic: "orders.created", Key: "o1", Payload: []byte(`{"id":1}`), ContentType: "application/json"},
		{Headers: map[string]string{"tenant": "a"}},
	} {
		if text := planted.Failures(t, func(t testing.TB) { RequirePublished(t, two(), first, second) }); text != "" {
			t.Errorf("wanted %+v: %s", first, text)
		}
	}
	RequirePublished(t, &fakeTx{})
}

func TestRequirePublishedFires(t *testing.T) {
	broken := errors.New("broken")
	first, second := outbox.Message{Topic: "orders.created"}, outbox.Message{Topic: "orders.paid"}
	for name, c := range map[string]struct {
		tx   *fakeTx
		want []outbox.Message
		says string
	}{
		"another topic":        {two(), []outbox.Message{first, {Topic: "orders.sent"}}, "- 2  orders.sent\n+ 2  orders.paid"},
		"another key":          {two(), []outbox.Message{{Key: "o2"}, second}, `- 1  (any topic) key="o2"`},
		"another payload":      {two(), []outbox.Message{{Payload: []byte("x")}, second}, `payload="{\"id\":1}"`},
		"another content type": {two(), []outbox.Message{{ContentType: "x"}, second}, `content type="x"`},
		"another dedup key":    {two(), []outbox.Message{first, {DedupKey: "e"}}, `dedup key="e"`},
		"another header":       {two(), []outbox.Message{{Headers: map[string]string{"Tenant": "b"}}, second}, `headers=map["Tenant":"b"]`},
		"a header more":        {two(), []outbox.Message{{Headers: map[string]string{"X": ""}}, second}, `headers=map["X":""]`},
		"another order":        {two(), []outbox.Message{second, first}, "- 1  orders.paid\n+ 1  orders.created"},
		"one too few":          {two(), []outbox.Message{first, second, first}, "- 3  orders.created"},
		"one too many":         {two(), []outbox.Message{first}, "  1  orders.created"},
		"something":            {two(), nil, "+ 2  orders.paid"},
		"a long payload":       {&fakeTx{rows: [][]any{{"t", "", strings.Repeat("x", 300), "{}", ""}}}, nil, "(300 bytes)"},
		"no schema":            {&fakeTx{err: broken}, nil, "broken"},
		"a broken connection":  {&fakeTx{after: broken}, nil, "broken"},
		"broken headers":       {&fakeTx{rows: [][]any{{"t", "", "", "[", ""}}}, nil, "headers"},
	} {
		text := planted.Failures(t, func(t testing.TB) { RequirePublished(t, c.tx, c.want...) })
		if !strings.Contains(text, c.says) {
			t.Errorf("%s: the test ends with %q, which lacks %q", name, text, c.says)
		}
	}
}

func TestRequirePublishedInASchema(t *testing.T) {
	tx := &fakeTx{}
	RequirePublishedIn(t, `odd"name`, tx)
	for _, table := range []string{`from "odd""name".message`, `from "odd""name".waiting`} {
		if !strings.Contains(tx.sql, table) {
			t.Errorf("the query lacks %s:\n%s", table, tx.sql)
		}
	}
}
