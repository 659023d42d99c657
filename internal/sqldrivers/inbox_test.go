package sqldrivers

import (
	"database/sql"
	"testing"
	"time"

	"github.com/outboxrelay/outbox"
	"github.com/outboxrelay/outbox/inbox"
	"github.com/outboxrelay/outbox/pgstore"
)

// TestInbox: every driver marks, finds duplicates and purges.
func TestInbox(t *testing.T) {
	eachDriver(t, func(t *testing.T, db *sql.DB, _ string) {
		box, err := inbox.New(nil)
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if err := box.MigrateSQL(t.Context(), db); err != nil {
				t.Fatal(err)
			}
		}
		for _, want := range []bool{true, false} {
			tx := begin(t, db)
			first, err := box.OnceSQL(t.Context(), tx, "mail", outbox.NewID().String())
			if err != nil || !first {
				t.Errorf("a new message: %v, %v", first, err)
			}
			if first, err = box.OnceSQL(t.Context(), tx, "mail", "the same"); err != nil || first != want {
				t.Errorf("first is %v, want %v, error %v", first, want, err)
			}
			if err := tx.Commit(); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := db.ExecContext(t.Context(), "update inbox.mark set marked_at = marked_at - interval '1 day' where id = 'the same'"); err != nil {
			t.Fatal(err)
		}
		if n, err := box.PurgeSQL(t.Context(), db, time.Hour); err != nil || n != 1 {
			t.Errorf("purged %d, %v", n, err)
		}
	})
}

// TestSettleSQL: every driver settles a message in its handler's transaction.
func TestSettleSQL(t *testing.T) {
	eachDriver(t, func(t *testing.T, db *sql.DB, url string) {
		store, err := pgstore.Open(t.Context(), url, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer store.Close()
		if _, err := db.ExecContext(t.Context(), "insert into outbox.message (id, topic, payload) values (gen_random_uuid(), 'a', '')"); err != nil {
			t.Fatal(err)
		}
		info := outbox.RelayInfo{ID: outbox.NewID(), Lease: time.Minute,
			Lanes: []outbox.LaneInfo{{Destination: "d", Topics: outbox.TopicSet{{Pattern: ">", In: true}}}}}
		if _, err := store.Beat(t.Context(), info, nil); err != nil {
			t.Fatal(err)
		}
		batch, err := store.Claim(t.Context(), outbox.ClaimQuery{Relay: info.ID, Destination: "d", Token: outbox.NewID(), Limit: 1, Bytes: 1 << 20})
		if err != nil || len(batch.Claims) != 1 {
			t.Fatalf("claimed %d, %v", len(batch.Claims), err)
		}
		tx := begin(t, db)
		if err := store.SettleSQL(t.Context(), tx, batch.Claims[0].Deliveries[0]); err != nil {
			t.Fatal(err)
		}
		if err := tx.Commit(); err != nil {
			t.Fatal(err)
		}
		if n := count(t, db, "select count(*) from outbox.message"); n != 0 {
			t.Errorf("%d messages are left", n)
		}
	})
}
