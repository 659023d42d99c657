package pgstore

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outboxrelay/outbox"
)

// listener hears the notifications of the default schema.
type listener struct{ conn *pgx.Conn }

func listen(t testing.TB, url string) *listener {
	t.Helper()
	conn := connect(t, url)
	exec(t, conn, "listen outbox")
	exec(t, conn, "listen test_end")
	return &listener{conn}
}

// expect checks how many notifications have been committed.
func (l *listener) expect(t testing.TB, want int) {
	t.Helper()
	if got := l.count(t); got != want {
		t.Errorf("%d notifications, want %d", got, want)
	}
}

// count counts the notifications that have been committed since the last count. They arrive in the order of commits, so
// those before a mark of the listener's own are all there are.
func (l *listener) count(t testing.TB) (n int) {
	t.Helper()
	exec(t, l.conn, "notify test_end")
	for l.next(t) != "test_end" {
		n++
	}
	return n
}

// await waits for one notification.
func (l *listener) await(t testing.TB) {
	t.Helper()
	if channel := l.next(t); channel != "outbox" {
		t.Fatalf("a notification of %s", channel)
	}
}

// next waits for a notification and returns its channel.
func (l *listener) next(t testing.TB) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	n, err := l.conn.WaitForNotification(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if n.Payload != "" {
		t.Errorf("payload %q", n.Payload)
	}
	return n.Channel
}

func ten() []outbox.Message {
	ms := make([]outbox.Message, 10)
	for i := range ms {
		ms[i].Topic = "t"
	}
	return ms
}

// TestNotifyOnce: ten messages in one call, plain or not, wake once.
func TestNotifyOnce(t *testing.T) {
	t.Parallel()
	url := migratedDatabase(t)
	conn, listener := connect(t, url), listen(t, url)
	publish(t, conn, newPublisher(t, nil), ten()...)
	listener.expect(t, 1)
	publish(t, conn, newPublisher(t, nil), special(ten())...)
	listener.expect(t, 1)
	exec(t, conn, "select outbox.publish('t', '\\x') from generate_series(1, 10)")
	listener.expect(t, 1)
	publish(t, conn, newPublisher(t, nil), outbox.Message{Topic: "t", Delay: time.Hour})
	listener.expect(t, 1)
}

// TestNotifyNotByDuplicate: what was not published wakes nobody.
func TestNotifyNotByDuplicate(t *testing.T) {
	t.Parallel()
	url := migratedDatabase(t)
	conn, listener := connect(t, url), listen(t, url)
	m := outbox.Message{Topic: "t", DedupKey: "d"}
	publish(t, conn, newPublisher(t, nil), m)
	listener.expect(t, 1)
	publish(t, conn, newPublisher(t, nil), m)
	exec(t, conn, "select outbox.publish('t', '\\x', dedup_key => 'd')")
	listener.expect(t, 0)
}

// TestNotifyAfterSavepoint: a savepoint that takes a message back takes its notification, and the next message of
// the transaction still wakes.
func TestNotifyAfterSavepoint(t *testing.T) {
	t.Parallel()
	url := migratedDatabase(t)
	conn, listener := connect(t, url), listen(t, url)
	p := newPublisher(t, nil)
	for _, again := range []bool{true, false} {
		tx := begin(t, conn)
		savepoint, err := tx.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := p.Publish(t.Context(), savepoint, outbox.Message{Topic: "t"}); err != nil {
			t.Fatal(err)
		}
		if err := savepoint.Rollback(t.Context()); err != nil {
			t.Fatal(err)
		}
		want := 0
		if again {
			want = 1
			if _, err := p.Publish(t.Context(), tx, outbox.Message{Topic: "t"}); err != nil {
				t.Fatal(err)
			}
		}
		commit(t, tx)
		listener.expect(t, want)
	}
	if n := value[int](t, conn, "select count(*) from outbox.message"); n != 1 {
		t.Errorf("%d messages", n)
	}
}

func TestNotifyModes(t *testing.T) {
	t.Parallel()
	url := migratedDatabase(t)
	conn, listener := connect(t, url), listen(t, url)
	const plainInsert = "insert into outbox.message (id, topic, payload) values (gen_random_uuid(), 't', '')"
	const function = "select outbox.publish('t', '')"
	cases := []struct {
		mode             string
		publisher        NotifyMode
		goCall, sql, row int
	}{
		{"publish", NotifyPublish, 1, 1, 0},
		{"off", NotifyOff, 0, 0, 0},
		{"trigger", NotifyTrigger, 1, 1, 1},
		{"publish", NotifyOff, 0, 1, 0},
	}
	for _, c := range cases {
		exec(t, conn, "select outbox.set_notify($1)", c.mode)
		p := newPublisher(t, &PublishConfig{Notify: c.publisher})
		publish(t, conn, p, outbox.Message{Topic: "t"})
		listener.expect(t, c.goCall)
		publish(t, conn, p, ten()...)
		listener.expect(t, c.goCall)
		publish(t, conn, p, outbox.Message{Topic: "t", Delay: time.Hour})
		listener.expect(t, c.goCall)
		exec(t, conn, function)
		listener.expect(t, c.sql)
		exec(t, conn, plainInsert)
		listener.expect(t, c.row)
	}
	if _, err := conn.Exec(t.Context(), "select outbox.set_notify('sometimes')"); err == nil {
		t.Error("set_notify('sometimes') succeeded")
	}
}

// TestNotifyOfOpenTransaction: a transaction that published and stays open delays nobody's wake-up.
func TestNotifyOfOpenTransaction(t *testing.T) {
	t.Parallel()
	url := migratedDatabase(t)
	slow, quick, listener := connect(t, url), connect(t, url), listen(t, url)
	p := newPublisher(t, nil)
	open := begin(t, slow)
	if _, err := p.Publish(t.Context(), open, outbox.Message{Topic: "t"}); err != nil {
		t.Fatal(err)
	}
	publish(t, quick, p, outbox.Message{Topic: "t"})
	listener.expect(t, 1)
	if err := open.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	listener.expect(t, 0)
	if n := value[int](t, quick, "select count(*) from outbox.message"); n != 1 {
		t.Errorf("%d messages", n)
	}
}
