package pgstore

import (
	"strconv"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/outboxrelay/outbox"
)

// TestPublishPrepared: a transaction that has published can be prepared if nothing has notified in it, and its message is
// there when it is committed. PostgreSQL prepares none that has.
func TestPublishPrepared(t *testing.T) {
	t.Parallel()
	conn := connect(t, migratedDatabase(t))
	const unsupported = "0A000"
	for notify, want := range map[NotifyMode]string{NotifyOff: "", NotifyPublish: unsupported} {
		tx := begin(t, conn)
		if _, err := newPublisher(t, &PublishConfig{Notify: notify}).Publish(t.Context(), tx, outbox.Message{Topic: "held"}); err != nil {
			t.Fatal(err)
		}
		_, err := tx.Exec(t.Context(), "prepare transaction 'publish_prepared_"+strconv.Itoa(int(notify))+"'")
		code := ""
		if e, ok := err.(*pgconn.PgError); ok {
			code = e.Code
		}
		if code != want || (err == nil) != (want == "") {
			t.Errorf("notify %d: %v, want SQLSTATE %q", notify, err, want)
		}
		_ = tx.Rollback(t.Context()) // of a transaction that is prepared there is none to roll back
	}
	exec(t, conn, "commit prepared 'publish_prepared_"+strconv.Itoa(int(NotifyOff))+"'")
	if n := value[int](t, conn, "select count(*) from outbox.message"); n != 1 {
		t.Errorf("%d messages, want that of the prepared transaction", n)
	}
}
