package pgstore

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/outboxrelay/outbox"
)

// "Never" is often written as the last day of a calendar.
func TestExpiryFarAway(t *testing.T) {
	t.Parallel()
	url := migratedDatabase(t)
	conn := connect(t, url)
	store := newStore(t, url, nil)
	for _, at := range []string{"9999-12-31", "2400-01-01", "294276-12-31"} {
		exec(t, conn, "select outbox.publish('a', 'x', expires_at => $1::text::timestamptz)", at)
	}
	exec(t, conn, "select outbox.publish('a', 'x', ttl => '1000 years', broker_ttl => '1000 years')")
	exec(t, conn, "insert into outbox.message (id, topic, payload, expires_at) values (gen_random_uuid(), 'a', 'long ago', '4000-01-01 BC')")
	ds := newTestRelay(t, store, ">").claim(t, 10)
	if len(ds) != 5 {
		t.Fatalf("claimed %d of 5", len(ds))
	}
	for _, d := range ds[:4] {
		if d.Deadline.Before(time.Now().Add(24 * time.Hour)) {
			t.Errorf("message %d has the deadline %v", d.Seq, d.Deadline)
		}
		if d.BrokerTTL < 0 {
			t.Errorf("message %d has the broker TTL %v", d.Seq, d.BrokerTTL)
		}
	}
	if d := ds[4]; d.Deadline.After(time.Now()) {
		t.Errorf("the expired message has the deadline %v", d.Deadline)
	}
}

// Times that Go and arithmetic do not have are refused where they are written, not where they are read.
func TestInfiniteTimesAreRefused(t *testing.T) {
	t.Parallel()
	conn := connect(t, migratedDatabase(t))
	for _, sql := range []string{
		"select outbox.publish('a', 'x', expires_at => 'infinity')",
		"select outbox.publish('a', 'x', expires_at => '-infinity')",
		"select outbox.publish('a', 'x', deliver_at => 'infinity')",
		"insert into outbox.message (id, topic, payload, published_at) values (gen_random_uuid(), 'a', 'x', 'infinity')",
		"insert into outbox.waiting (id, topic, payload, available_at) values (gen_random_uuid(), 'a', 'x', 'infinity')",
	} {
		_, err := conn.Exec(t.Context(), sql)
		if state, _ := sqlError(err); state != "23514" {
			t.Errorf("%s: %v", sql, err)
		}
	}
}

// Since PostgreSQL 17 an interval may be infinite. One that would make an infinite time is refused; a broker's is as long as
// a duration can be.
func TestInfiniteIntervals(t *testing.T) {
	url := migratedDatabase(t)
	conn := connect(t, url)
	finite := value[int](t, conn, "select current_setting('server_version_num')::int") < 170000 // they all are, before PostgreSQL 17
	for args, want := range map[string]string{
		"ttl => 'infinity'": "23514", "delay => 'infinity'": "23514", "broker_ttl => '-infinity'": "23514",
		"ttl => '-infinity'": "22023", "delay => '-infinity'": "22023",
	} {
		if finite {
			want = "22007" // no interval
		}
		_, err := conn.Exec(t.Context(), "select outbox.publish('a', 'x', "+args+")")
		if state, _ := sqlError(err); state != want {
			t.Errorf("%s: %v, want %s", args, err, want)
		}
	}
	if finite {
		return
	}
	exec(t, conn, "select outbox.publish('a', 'x', broker_ttl => 'infinity')")
	relay := newTestRelay(t, newStore(t, url, nil), ">")
	ds := relay.claim(t, 10)
	if len(ds) != 1 || ds[0].BrokerTTL != longestInterval {
		t.Fatalf("claimed %+v", ds)
	}
	relay.settle(t, outbox.Died, ds...)
	for call, want := range map[string]int64{"older_than => 'infinity'": 0, "newer_than => 'infinity'": 1} {
		if got := value[int64](t, conn, "select matched from outbox.redrive(topic => 'a', dry_run => true, "+call+")"); got != want {
			t.Errorf("redrive of %s matches %d, want %d", call, got, want)
		}
	}
}

// A pause that is no topic pattern would be an error in every claim.
func TestPauseOfNoPatternIsRefused(t *testing.T) {
	t.Parallel()
	conn := connect(t, migratedDatabase(t))
	for _, name := range []string{"(", "a[", "a..b", "", "a.>.b", "a*", `a\`, "a b"} {
		_, err := conn.Exec(t.Context(), "insert into outbox.control (scope, name) values ('topic', $1)", name)
		if state, _ := sqlError(err); state != "23514" {
			t.Errorf("pause of %q: %v", name, err)
		}
	}
	for _, name := range []string{">", "*", "a", "a.*.c", "a.>", "a-b_c.D"} {
		exec(t, conn, "insert into outbox.control (scope, name) values ('topic', $1)", name)
	}
	exec(t, conn, "insert into outbox.control (scope, name) values ('destination', 'lane')")
}

// A heartbeat that was delayed on its way and overtaken knows less than the one that overtook it.
func TestOvertakenBeatGivesNothingBack(t *testing.T) {
	t.Parallel()
	url := migratedDatabase(t)
	store := newStore(t, url, nil)
	insert(t, connect(t, url), "a", 1, 0)
	relay, other := newTestRelay(t, store, ">"), newTestRelay(t, store, ">")
	delayed := *relay
	delayed.known = nil
	relay.info.Beat++ // the delayed one's number
	relay.claim(t, 1)
	relay.beat(t)
	delayed.beat(t)
	if ds := other.claim(t, 1); ds != nil {
		t.Errorf("a delayed heartbeat gave back what its relay still holds: %s", payloads(ds))
	}
	relay.beat(t)
}

// TestFrozenClaimIsEndedByShortCalls: with a short lease calls have a third of it, less than the server's own deadline. A
// busy machine needs a good part of it for the connection that each call makes anew after the one before has failed.
func TestFrozenClaimIsEndedByShortCalls(t *testing.T) {
	t.Parallel()
	url := migratedDatabase(t)
	store := newStore(t, url, nil)
	insert(t, connect(t, url), "a", 1, 0)
	relay := newTestRelay(t, store, ">")
	freezeInClaim(t, url, relay.info.ID)
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); {
		ctx, cancel := context.WithTimeout(t.Context(), 1900*time.Millisecond)
		batch, err := store.Claim(ctx, relay.query(1))
		cancel()
		if err == nil && len(batch.Claims) == 1 {
			return
		}
	}
	t.Error("the frozen claim was not ended")
}

// collector is a sink of batches; what it is given it notes.
type collector struct {
	mu     sync.Mutex
	topics []string
}

func (c *collector) Deliver(_ context.Context, d *outbox.Delivery) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.topics = append(c.topics, d.Topic)
	return nil
}

func (c *collector) DeliverBatch(ctx context.Context, ds []*outbox.Delivery, report func(int, error)) error {
	for i, d := range ds {
		report(i, c.Deliver(ctx, d))
	}
	return nil
}

// TestUnreadableRow: a row that no CHECK would have let in is dead by itself; those of its claim and of its key go on.
func TestUnreadableRow(t *testing.T) {
	t.Parallel()
	batches := &collector{}
	for name, sink := range map[string]outbox.Sink{"batch": batches, "single": struct{ outbox.Sink }{batches}} {
		t.Run(name, func(t *testing.T) {
			batches.topics = nil
			url := migratedDatabase(t)
			conn := connect(t, url)
			exec(t, conn, "alter table outbox.message drop constraint message_headers, drop constraint message_times")
			for _, headers := range []string{`{"X":1}`, `[]`, `{"X":{}}`, `"text"`} {
				exec(t, conn, "insert into outbox.message (id, topic, key, payload, headers) values (gen_random_uuid(), 'bad', 'k', 'x', $1::text::jsonb)", headers)
			}
			exec(t, conn, `insert into outbox.message (id, topic, key, payload, published_at, expires_at)
				values (gen_random_uuid(), 'good', 'k', 'x', 'infinity', 'infinity'), (gen_random_uuid(), 'good', 'k', 'x', '-infinity', null)`)
			relay, err := outbox.NewRelay(newStore(t, url, nil), outbox.To(sink), &outbox.Config{Logger: slog.New(slog.DiscardHandler)})
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			defer cancel()
			n, err := relay.RunUntilIdle(ctx)
			if err != nil || n.Dead != 4 || n.Delivered != 2 || slices.Contains(batches.topics, "bad") {
				t.Errorf("%+v, the sink got %q, %v", n, batches.topics, err)
			}
			dead := values[string](t, conn, "select error_class || ': ' || last_error from outbox.dead order by seq")
			if len(dead) != 4 || !strings.HasPrefix(dead[0], "decode: the headers are no object of texts") {
				t.Errorf("dead: %q", dead)
			}
		})
	}
}
