package sqldrivers

import (
	"context"
	"database/sql"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/outboxrelay/outbox"
	"github.com/outboxrelay/outbox/internal/planted"
	"github.com/outboxrelay/outbox/outboxtest"
)

// wanted are three messages as they are published: one at once, one for later, one from within a savepoint.
var wanted = []outbox.Message{
	{Topic: "orders.created", Key: "o1", Payload: []byte("{}"), Headers: map[string]string{"tenant": "a"}},
	{Topic: "orders.reminder", Delay: 1e12},
	{Topic: "orders.paid", DedupKey: "d"},
}

// TestRequirePublished: by pgx and by every driver of database/sql, only the messages of the transaction itself
// count, whatever older and younger transactions have published meanwhile.
func TestRequirePublished(t *testing.T) {
	eachDriver(t, func(t *testing.T, db *sql.DB, url string) {
		p := newPublisher(t, nil)
		other := func() {
			tx := begin(t, db)
			if _, err := p.PublishSQL(t.Context(), tx, outbox.Message{Topic: "other"}); err != nil {
				t.Fatal(err)
			}
			if err := tx.Commit(); err != nil {
				t.Fatal(err)
			}
		}
		other()
		tx := begin(t, db)
		publish := func(ms ...outbox.Message) {
			if _, err := p.PublishSQL(t.Context(), tx, ms...); err != nil {
				t.Fatal(err)
			}
		}
		outboxtest.RequirePublishedSQL(t, tx)
		publish(wanted[:2]...)
		other()
		execSQL(t, tx, "savepoint a")
		publish(wanted[2])
		outboxtest.RequirePublishedSQL(t, tx, wanted...)
		execSQL(t, tx, "release savepoint a")
		outboxtest.RequirePublishedSQL(t, tx, wanted...)
		execSQL(t, tx, "savepoint b")
		publish(outbox.Message{Topic: "taken.back"})
		text := planted.Failures(t, func(t testing.TB) { outboxtest.RequirePublishedSQL(t, tx, wanted...) })
		if !strings.Contains(text, "+ 4  taken.back") {
			t.Errorf("with one message too many the test ends with %q", text)
		}
		execSQL(t, tx, "rollback to savepoint b")
		other()
		outboxtest.RequirePublishedSQL(t, tx, wanted...)
	})
}

func execSQL(t *testing.T, tx *sql.Tx, query string) {
	t.Helper()
	if _, err := tx.ExecContext(t.Context(), query); err != nil {
		t.Fatal(err)
	}
}

func TestRequirePublishedPgx(t *testing.T) {
	t.Parallel()
	url := postgres.DatabaseFrom(t, "migrated", migrate)
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	tx, err := conn.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(context.Background())
	outboxtest.RequirePublished(t, tx)
	if _, err := newPublisher(t, nil).Publish(t.Context(), tx, wanted...); err != nil {
		t.Fatal(err)
	}
	outboxtest.RequirePublished(t, tx, wanted...)
	text := planted.Failures(t, func(t testing.TB) { outboxtest.RequirePublished(t, tx, wanted[:2]...) })
	if !strings.Contains(text, `+ 3  orders.paid dedup key="d"`) {
		t.Errorf("with one message too many the test ends with %q", text)
	}
	text = planted.Failures(t, func(t testing.TB) { outboxtest.RequirePublishedIn(t, "elsewhere", tx) })
	if !strings.Contains(text, "elsewhere") {
		t.Errorf("without a schema the test ends with %q", text)
	}
}
