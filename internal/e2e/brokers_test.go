package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/outboxrelay/outbox"
	"github.com/outboxrelay/outbox/internal/devservices/natsdev"
	"github.com/outboxrelay/outbox/internal/devservices/rabbitdev"
	"github.com/outboxrelay/outbox/pgstore"
)

// brokers are two destinations of one outbox, a relay's process that delivers to both, and what has arrived: topics
// billing.… at RabbitMQ, all others at JetStream.
type brokers struct {
	db        *database
	publisher *pgstore.Publisher
	nats      *natsdev.Server
	js        jetstream.JetStream
	rabbit    *rabbitdev.Server
	exchange  string // and queue
	relay     *program
}

const (
	stream  = "EVENTS"
	events  = "events"
	billing = "billing"
)

// routing differs from a plain set-up.
type routing struct {
	nats, rabbit string // URLs that clients use; empty: the servers' own
	bound        string // routing keys that reach the queue; empty: all
	maxAttempts  int    // 0: two, so that an attempt that should not be spent shows
}

func newBrokers(t *testing.T, rabbit *rabbitdev.Server, natsServer *natsdev.Server, r routing) *brokers {
	t.Helper()
	b := &brokers{db: newDatabase(t), nats: natsServer, rabbit: rabbit}
	b.exchange = strings.Map(func(c rune) rune {
		if c == '/' || c == ' ' {
			return '-'
		}
		return c
	}, t.Name())
	b.connect(t, r)
	var err error
	if b.publisher, err = pgstore.NewPublisher(&pgstore.PublishConfig{MaxPayload: 32 << 20}); err != nil {
		t.Fatal(err)
	}
	b.relay = startProgram(t, "run", "--config", b.config(t, r))
	until(t, time.Minute, "the relay runs", func() bool { return b.relay.says(t, "relay registered", "") == 1 })
	return b
}

func newNATS(t *testing.T) *natsdev.Server {
	t.Helper()
	server, err := natsdev.Start(natsdev.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { server.Close() })
	return server
}

// connect makes the stream, and the queue and its exchange.
func (b *brokers) connect(t *testing.T, r routing) {
	t.Helper()
	conn, err := nats.Connect(b.nats.URL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	if b.js, err = jetstream.New(conn); err != nil {
		t.Fatal(err)
	}
	if _, err := b.js.CreateStream(t.Context(), jetstream.StreamConfig{Name: stream, Subjects: []string{"events.>"}, Duplicates: time.Hour}); err != nil {
		t.Fatal(err)
	}
	bound := r.bound
	if bound == "" {
		bound = "#"
	}
	if err := b.rabbit.Bind(b.exchange, b.exchange, bound, nil); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.rabbit.Delete(b.exchange, b.exchange); err != nil {
			t.Error(err)
		}
	})
}

func (b *brokers) config(t *testing.T, r routing) string {
	t.Helper()
	if r.nats == "" {
		r.nats = b.nats.URL()
	}
	if r.rabbit == "" {
		r.rabbit = b.rabbit.URL()
	}
	if r.maxAttempts == 0 {
		r.maxAttempts = 2
	}
	file := filepath.Join(t.TempDir(), "outbox.yaml")
	text := fmt.Sprintf(`
database: {url: %q, migrate: check}
destinations:
  %s: {url: %q, stream: %s, subject: "{topic}"}
  %s: {url: %q, exchange: %s, tracking_ids: true}
routes:
  - {topics: ["billing.>"], to: %[5]s}
  - {topics: ["events.>"], to: %[2]s}
retry: {base: 100ms, max: 1s}
max_attempts: %[8]d
log: {format: json}
`, b.db.url, events, r.nats, stream, billing, r.rabbit, b.exchange, r.maxAttempts)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// request is what causes all messages.
const request = "request-1"

// publish publishes in one transaction.
func (b *brokers) publish(t *testing.T, ms ...outbox.Message) {
	t.Helper()
	tx, err := b.db.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(context.Background())
	if _, err := b.publisher.Publish(outbox.WithCausation(t.Context(), request), tx, ms...); err != nil {
		t.Fatal(err)
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// stored is how many messages the stream has.
func (b *brokers) stored(t *testing.T) int {
	t.Helper()
	s, err := b.js.Stream(t.Context(), stream)
	if err != nil {
		t.Fatal(err)
	}
	return int(s.CachedInfo().State.Msgs)
}

// arrival is a message at a broker.
type arrival struct{ topic, key, payload, causes string }

// inStream reads the stream from its beginning.
func (b *brokers) inStream(t *testing.T) (all []arrival) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	s, err := b.js.Stream(ctx, stream)
	if err != nil {
		t.Fatal(err)
	}
	consumer, err := s.OrderedConsumer(ctx, jetstream.OrderedConsumerConfig{})
	if err != nil {
		t.Fatal(err)
	}
	messages, err := consumer.Messages()
	if err != nil {
		t.Fatal(err)
	}
	defer messages.Stop()
	for range s.CachedInfo().State.Msgs {
		m, err := messages.Next(jetstream.NextContext(ctx))
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, arrival{m.Headers().Get("Outbox-Topic"), m.Headers().Get("Outbox-Key"), string(m.Data()), m.Headers().Get("Outbox-Causation")})
	}
	return all
}

// inQueue reads the queue, and leaves what is in it there.
func (b *brokers) inQueue(t *testing.T) (all []arrival) {
	t.Helper()
	for _, d := range b.inQueueRaw(t) {
		text := func(name string) string { s, _ := d.Headers[name].(string); return s }
		all = append(all, arrival{text("Outbox-Topic"), text("Outbox-Key"), string(d.Body), text("Outbox-Causation")})
	}
	return all
}

func (b *brokers) inQueueRaw(t *testing.T) []amqp.Delivery {
	t.Helper()
	messages, err := b.rabbit.Messages(b.exchange)
	if err != nil {
		t.Fatal(err)
	}
	return messages
}

// wantNoFailure stops the relay and fails the test if anything has cost an attempt.
func (b *brokers) wantNoFailure(t *testing.T) {
	t.Helper()
	last := b.relay.stop(t)
	if last.Retried != 0 || last.Dead != 0 || b.db.count(t.Context(), dead) != 0 || b.relay.says(t, "delivery failed, will be retried", "") != 0 {
		t.Errorf("attempts were spent: %+v", last)
	}
	if t.Failed() {
		t.Log(b.relay.text())
	}
}

// isDead waits for a dead letter of the topic and returns the last error.
func (b *brokers) isDead(t *testing.T, topic string) (class, text string) {
	t.Helper()
	until(t, time.Minute, topic+" is dead", func() bool {
		return b.db.pool.QueryRow(t.Context(), "select error_class, last_error from outbox.dead where topic = $1", topic).Scan(&class, &text) == nil
	})
	return class, text
}
