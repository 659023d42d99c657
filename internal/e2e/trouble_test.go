package e2e

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/outboxrelay/outbox"
	"github.com/outboxrelay/outbox/internal/devservices/rabbitdev"
	"github.com/outboxrelay/outbox/internal/faultnet"
)

// publishBoth publishes n small messages to each destination.
func (b *brokers) publishBoth(t *testing.T, n int) {
	t.Helper()
	var ms []outbox.Message
	for i := range n {
		payload := []byte(strconv.Itoa(i))
		ms = append(ms, outbox.Message{Topic: "events.small", Key: "k" + strconv.Itoa(i%7), Payload: payload},
			outbox.Message{Topic: "billing.small", Key: "k" + strconv.Itoa(i%7), Payload: payload})
	}
	b.publish(t, ms...)
}

// only returns the arrivals of a topic.
func only(all []arrival, topic string) (some []arrival) {
	for _, a := range all {
		if a.topic == topic {
			some = append(some, a)
		}
	}
	return some
}

// testAlarm: RabbitMQ blocks its publishers, and goes on.
func testAlarm(t *testing.T, rabbit *rabbitdev.Server) {
	b := newBrokers(t, rabbit, newNATS(t), routing{})
	b.publishBoth(t, 10)
	b.db.drained(t, 3*time.Minute)
	if err := rabbit.Alarm(t.Context(), true); err != nil {
		t.Fatal(err)
	}
	cleared := false
	defer func() {
		if !cleared {
			_ = rabbit.Alarm(t.Context(), false)
		}
	}()
	b.publishBoth(t, 200)
	until(t, time.Minute, "JetStream has its part, and RabbitMQ is known to be blocked", func() bool {
		return b.stored(t) == 210 && b.relay.says(t, "destination is unavailable", billing) == 1
	})
	if n := len(b.inQueue(t)); n != 10 {
		t.Errorf("the queue holds %d messages: there was no alarm", n)
	}
	if err := rabbit.Alarm(t.Context(), false); err != nil {
		t.Fatal(err)
	}
	cleared = true
	b.db.drained(t, 3*time.Minute)
	wantInOrder(t, billing, b.inQueue(t)[10:], 200)
	b.wantNoFailure(t)
}

// testHang: both brokers stop answering without a word. No transaction waits for them.
func testHang(t *testing.T, rabbit *rabbitdev.Server) {
	server := newNATS(t)
	proxy, err := faultnet.Start(strings.TrimPrefix(server.URL(), "nats://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { proxy.Close() })
	b := newBrokers(t, rabbit, server, routing{nats: "nats://" + proxy.Addr()})
	b.publishBoth(t, 10)
	b.db.drained(t, 3*time.Minute)
	proxy.Freeze()
	defer proxy.Thaw()
	if err := rabbit.Pause(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = rabbit.Resume() }()
	b.publishBoth(t, 2000)
	claimed, looks := false, 0
	until(t, time.Minute, "both destinations are known to hang", func() bool {
		looks++
		claimed = claimed || b.db.count(t.Context(), listed) > 0
		b.wantNoOldTransaction(t)
		return b.relay.says(t, "destination is unavailable", events) > 0 && b.relay.says(t, "destination is unavailable", billing) > 0
	})
	if !claimed || looks < 20 {
		t.Errorf("looked %d times for transactions, claims among them: %v", looks, claimed)
	}
	proxy.Thaw()
	if err := rabbit.Resume(); err != nil {
		t.Fatal(err)
	}
	b.db.drained(t, 3*time.Minute)
	wantInOrder(t, events, b.inStream(t)[10:], 2000)
	wantInOrder(t, billing, b.inQueue(t)[10:], 2000)
	b.wantNoFailure(t)
}

const old = `select count(*) from pg_stat_activity a where a.datname = current_database()
	and a.pid <> pg_backend_pid() and a.xact_start < clock_timestamp() - interval '1 second'`

// wantNoOldTransaction: in this database no transaction is older than a second.
func (b *brokers) wantNoOldTransaction(t *testing.T) {
	t.Helper()
	if n := b.db.count(t.Context(), old); n != 0 {
		t.Errorf("%d transactions are older than a second while the brokers hang", n)
	}
}

// TestOldTransactionsFires: a transaction that waits is seen.
func TestOldTransactionsFires(t *testing.T) {
	b := &brokers{db: newDatabase(t)}
	tx, err := b.db.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(t.Context())
	until(t, time.Minute, "the transaction is seen", func() bool { return b.db.count(t.Context(), old) == 1 })
}

// testUnroutable: what no queue is bound for is not delivered, is tried again and ends dead; the others arrive.
func testUnroutable(t *testing.T, rabbit *rabbitdev.Server) {
	b := newBrokers(t, rabbit, newNATS(t), routing{bound: "billing.small"})
	b.publish(t, outbox.Message{Topic: "billing.lost", Key: "k0", Payload: []byte("x")})
	b.publishBoth(t, 100)
	if _, text := b.isDead(t, "billing.lost"); !strings.Contains(text, "billing.lost") {
		t.Errorf("the error does not name the routing key: %s", text)
	}
	b.db.drained(t, 3*time.Minute)
	wantInOrder(t, billing, b.inQueue(t), 100)
	b.wantCauses(t)
	b.wantDead(t, 1, 2)
}

// wantCauses: all messages at both brokers tell the request that caused them.
func (b *brokers) wantCauses(t *testing.T) {
	t.Helper()
	for _, a := range append(b.inStream(t), b.inQueue(t)...) {
		if a.causes != request {
			t.Fatalf("a message tells %q as its cause: %+v", a.causes, a)
		}
	}
	for _, d := range b.inQueueRaw(t) {
		if list := d.Headers["x-outbox-tracking-ids"]; list != `["`+request+`"]` {
			t.Fatalf("x-outbox-tracking-ids is %v", list)
		}
	}
}

// wantDead: so many messages are dead, each after that many attempts, and no destination was blamed for them.
func (b *brokers) wantDead(t *testing.T, messages, attempts int) {
	t.Helper()
	if n := b.db.count(t.Context(), dead); n != messages {
		t.Errorf("%d messages are dead, want %d", n, messages)
	}
	if n := b.db.count(t.Context(), "select coalesce(max(attempts), 0) from outbox.dead"); n != attempts {
		t.Errorf("dead after %d attempts, want %d", n, attempts)
	}
	if n := b.relay.says(t, "destination is unavailable", ""); n != 0 {
		t.Errorf("a destination was unavailable %d times", n)
	}
	b.relay.stop(t)
	if t.Failed() {
		t.Log(b.relay.text())
	}
}

// testOversized: the publisher's limit is above that of both brokers. What they do not take dies alone and at once.
func testOversized(t *testing.T, rabbit *rabbitdev.Server) {
	b := newBrokers(t, rabbit, newNATS(t), routing{})
	large := make([]byte, 20<<20)
	b.publish(t, outbox.Message{Topic: "billing.large", Key: "k0", Payload: large}, outbox.Message{Topic: "events.large", Key: "k0", Payload: large})
	b.publishBoth(t, 300)
	for _, topic := range []string{"billing.large", "events.large"} {
		if _, text := b.isDead(t, topic); !strings.Contains(text, "too large") {
			t.Errorf("%s is dead because of %s", topic, text)
		}
	}
	b.db.drained(t, 3*time.Minute)
	wantInOrder(t, billing, b.inQueue(t), 300)
	wantInOrder(t, events, b.inStream(t), 300)
	b.wantDead(t, 2, 1)
}

// testLineBreak: a row that publishing would have refused has a header that NATS cannot carry. AMQP carries it.
func testLineBreak(t *testing.T, rabbit *rabbitdev.Server) {
	b := newBrokers(t, rabbit, newNATS(t), routing{})
	b.db.exec(t, "alter table outbox.message drop constraint message_headers")
	b.db.exec(t, `insert into outbox.message (id, topic, key, payload, headers)
		select gen_random_uuid(), t.topic, 'k0', '!', '{"note": "one\r\nInjected: two"}' from unnest(array['events.broken', 'billing.broken']) t(topic)`)
	b.publishBoth(t, 100)
	if _, text := b.isDead(t, "events.broken"); !strings.Contains(text, "note") {
		t.Errorf("the error does not name the header: %s", text)
	}
	b.db.drained(t, 3*time.Minute)
	wantInOrder(t, events, b.inStream(t), 100)
	found := 0
	for _, d := range b.inQueueRaw(t) {
		if d.Headers["Outbox-Topic"] == "billing.broken" && d.Headers["note"] == "one\r\nInjected: two" {
			found++
		}
	}
	if found != 1 {
		t.Errorf("the row is %d times in the queue", found)
	}
	wantInOrder(t, billing, only(b.inQueue(t), "billing.small"), 100)
	b.wantDead(t, 1, 1)
}

// testMissing: the exchange is deleted amid the traffic and comes back. Declaring it is the relay's own work, its
// binding is not, so the messages of the meantime wait for their retry.
func testMissing(t *testing.T, rabbit *rabbitdev.Server) {
	b := newBrokers(t, rabbit, newNATS(t), routing{maxAttempts: 100})
	b.publishBoth(t, 100)
	b.db.drained(t, 3*time.Minute)
	if err := rabbit.Delete(b.exchange); err != nil {
		t.Fatal(err)
	}
	b.publishBoth(t, 100)
	until(t, time.Minute, "the relay tells", func() bool { return b.relay.says(t, "destination is misconfigured", billing) > 0 })
	b.wantState(t, billing, outbox.StateMisconfigured, "exchange "+b.exchange+" does not exist; create it")
	b.wantState(t, events, outbox.StateAvailable, "")
	if err := rabbit.Bind(b.exchange, b.exchange, "#", nil); err != nil {
		t.Fatal(err)
	}
	b.db.drained(t, 3*time.Minute)
	b.wantState(t, billing, outbox.StateAvailable, "")
	wantInOrder(t, billing, b.inQueue(t)[100:], 100)
	if n := b.db.count(t.Context(), dead); n != 0 {
		t.Errorf("%d messages are dead", n)
	}
	if n := b.relay.says(t, "destination is unavailable", events); n != 0 {
		t.Errorf("JetStream was unavailable %d times", n)
	}
	b.relay.stop(t)
}

// wantState waits until status says of a destination what it should.
func (b *brokers) wantState(t *testing.T, destination, state, reason string) {
	t.Helper()
	type told struct {
		Name, State, Reason string
		RelaysFaulty        int `json:"relays_faulty"`
	}
	until(t, time.Minute, destination+" is "+state, func() bool {
		var status struct{ Destinations []told }
		if err := json.Unmarshal([]byte(callProgram(t, "status", "--json", "--database-url", b.db.url)), &status); err != nil {
			t.Fatal(err)
		}
		faulty := 0
		if state != outbox.StateAvailable {
			faulty = 1
		}
		return slices.ContainsFunc(status.Destinations, func(d told) bool {
			return d.Name == destination && d.State == state && strings.Contains(d.Reason, reason) && d.RelaysFaulty == faulty
		})
	})
}
