package pgstore

import (
	"strings"
	"testing"

	"github.com/outboxrelay/outbox"
)

// TestExpireDedupSparesTakeover: a row that a publisher takes over while the janitor looks at it stays. The janitor
// passes over locked rows; without that it waits, and then meets the newer version of the row as it otherwise does
// only by chance.
func TestExpireDedupSparesTakeover(t *testing.T) {
	t.Parallel()
	url := migratedDatabase(t)
	conn, janitor := connect(t, url), connect(t, url)
	p := newPublisher(t, nil)
	m := outbox.Message{Topic: "t", DedupKey: "d"}
	publish(t, conn, p, m)
	exec(t, conn, "delete from outbox.message")
	text, err := queryFiles.ReadFile("queries/expire_dedup.sql")
	if err != nil {
		t.Fatal(err)
	}
	waiting := strings.Replace(string(text), " skip locked", "", 1)
	if waiting == string(text) {
		t.Fatal("expire_dedup.sql does not say skip locked")
	}
	tx := begin(t, conn)
	if _, err := p.Publish(t.Context(), tx, m); err != nil {
		t.Fatal(err)
	}
	done := make(chan error)
	go func() {
		_, err := janitor.Exec(t.Context(), waiting, 10)
		done <- err
	}()
	waitForLock(t, connect(t, url), janitor.PgConn().PID())
	commit(t, tx)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if !publish(t, conn, p, m)[0].Duplicate {
		t.Error("the janitor removed the key of a message that is there")
	}
	exec(t, conn, "delete from outbox.message")
	exec(t, janitor, string(text), 10)
	if n := value[int](t, conn, "select count(*) from outbox.dedup"); n != 0 {
		t.Errorf("%d rows of messages that are gone stay", n)
	}
}
