package e2e

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/outboxrelay/outbox/internal/devservices/natsdev"
	"github.com/outboxrelay/outbox/internal/devservices/rabbitdev"
	"github.com/outboxrelay/outbox/internal/history"
)

// target is the broker of a cell, and all that it has taken there.
type target interface {
	addr() string
	settings(addr string) string // of the destination, for the program's configuration
	landed(t *testing.T) []landing
	forget(t *testing.T) // what has landed until now
}

// landing is a message that a broker has taken, at a time of the history.
type landing struct {
	at             int64
	id, topic, key string
	seq            int64
	payload        string // its hash
}

func (c *cell) newTarget() target {
	c.t.Helper()
	if c.destination == toJetStream {
		return newStreamTarget(c.t, c.nats)
	}
	return newQueueTarget(c.t, c.rabbit)
}

// streamTarget reads its stream when it is asked: the stream keeps the time at which it took each message.
type streamTarget struct {
	server *natsdev.Server
	js     jetstream.JetStream
	before []landing // of streams that are deleted
}

const matrixStream = "MATRIX"

func newStreamTarget(t *testing.T, server *natsdev.Server) *streamTarget {
	t.Helper()
	conn, err := nats.Connect(server.URL(), nats.MaxReconnects(-1), nats.ReconnectWait(50*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	s := &streamTarget{server: server}
	if s.js, err = jetstream.New(conn); err != nil {
		t.Fatal(err)
	}
	s.create(t)
	t.Cleanup(func() { _ = s.js.DeleteStream(context.Background(), matrixStream) })
	return s
}

func (s *streamTarget) configuration() jetstream.StreamConfig {
	return jetstream.StreamConfig{Name: matrixStream, Subjects: []string{"e2e.>"}, Duplicates: time.Hour}
}

func (s *streamTarget) create(t *testing.T) {
	t.Helper()
	if _, err := s.js.CreateStream(t.Context(), s.configuration()); err != nil {
		t.Fatal(err)
	}
}

// remove deletes the stream, after it has taken no more messages and what it has was read.
func (s *streamTarget) remove(t *testing.T) {
	t.Helper()
	cfg := s.configuration()
	cfg.Subjects = []string{"elsewhere"}
	if _, err := s.js.UpdateStream(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	s.before = s.landed(t)
	if err := s.js.DeleteStream(t.Context(), matrixStream); err != nil {
		t.Fatal(err)
	}
}

func (s *streamTarget) addr() string { return strings.TrimPrefix(s.server.URL(), "nats://") }

func (s *streamTarget) settings(addr string) string {
	return fmt.Sprintf("url: %q, stream: %s, subject: %q", "nats://"+addr, matrixStream, "{topic}")
}

func (s *streamTarget) landed(t *testing.T) []landing {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	stream, err := s.js.Stream(ctx, matrixStream)
	if err != nil {
		t.Fatal(err)
	}
	all := append([]landing(nil), s.before...)
	n := stream.CachedInfo().State.Msgs
	if n == 0 {
		return all
	}
	consumer, err := stream.OrderedConsumer(ctx, jetstream.OrderedConsumerConfig{})
	if err != nil {
		t.Fatal(err)
	}
	messages, err := consumer.Messages()
	if err != nil {
		t.Fatal(err)
	}
	defer messages.Stop()
	uptime := history.Now() - time.Now().UnixNano() // from the wall clock to the history's
	for range n {
		m, err := messages.Next(jetstream.NextContext(ctx))
		if err != nil {
			t.Fatal(err)
		}
		meta, err := m.Metadata()
		if err != nil {
			t.Fatal(err)
		}
		l := landing{at: meta.Timestamp.UnixNano() + uptime, payload: history.Hash(m.Data())}
		l.read(m.Headers().Get)
		all = append(all, l)
	}
	return all
}

func (s *streamTarget) forget(t *testing.T) {
	t.Helper()
	s.before = nil
	stream, err := s.js.Stream(t.Context(), matrixStream)
	if err == nil {
		err = stream.Purge(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
}

// read takes from the headers what the sinks put there.
func (l *landing) read(header func(name string) string) {
	l.id, l.topic, l.key = header("Outbox-Id"), header("Outbox-Topic"), header("Outbox-Key")
	l.seq, _ = strconv.ParseInt(header("Outbox-Seq"), 10, 64) // 0 is noticed, as changed
}

// queueTarget consumes its queue, as a consumer that comes back whenever the broker is there.
type queueTarget struct {
	server *rabbitdev.Server
	queue  string // and exchange

	mu  sync.Mutex
	all []landing
	has map[string]bool
}

func newQueueTarget(t *testing.T, server *rabbitdev.Server) *queueTarget {
	t.Helper()
	q := &queueTarget{server: server, queue: fmt.Sprintf("matrix-%d", history.Now()), has: map[string]bool{}}
	if err := server.Bind(q.queue, q.queue, "#", nil); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { q.run(ctx) })
	t.Cleanup(func() {
		cancel()
		running.Wait()
		if err := server.Delete(q.queue, q.queue); err != nil {
			t.Error(err)
		}
	})
	return q
}

func (q *queueTarget) addr() string { return q.server.Addr() }

func (q *queueTarget) settings(addr string) string {
	return fmt.Sprintf("url: %q, exchange: %s", q.server.Through(addr), q.queue)
}

func (q *queueTarget) landed(*testing.T) []landing {
	q.mu.Lock()
	defer q.mu.Unlock()
	return append([]landing(nil), q.all...)
}

func (q *queueTarget) forget(*testing.T) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.all, q.has = nil, map[string]bool{}
}

func (q *queueTarget) run(ctx context.Context) {
	for ctx.Err() == nil {
		_ = q.consume(ctx) // ends with the broker's faults
		select {
		case <-ctx.Done():
		case <-time.After(50 * time.Millisecond):
		}
	}
}

func (q *queueTarget) consume(ctx context.Context) error {
	conn, err := amqp.DialConfig(q.server.URL(), amqp.Config{Dial: amqp.DefaultDial(5 * time.Second), Heartbeat: 5 * time.Second})
	if err != nil {
		return err
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { conn.CloseDeadline(time.Now().Add(time.Second)) })
	defer stop()
	ch, err := conn.Channel()
	if err != nil {
		return err
	}
	if err := ch.Qos(500, 0, false); err != nil {
		return err
	}
	deliveries, err := ch.Consume(q.queue, "", false, false, false, false, nil)
	if err != nil {
		return err
	}
	for d := range deliveries {
		q.take(d)
		if err := d.Ack(false); err != nil {
			return err
		}
	}
	return nil
}

// take keeps what arrives. What the broker gives again because an acknowledgement was lost has not landed twice.
func (q *queueTarget) take(d amqp.Delivery) {
	l := landing{at: history.Now(), payload: history.Hash(d.Body)}
	l.read(func(name string) string {
		if d.Headers[name] == nil {
			return ""
		}
		return fmt.Sprint(d.Headers[name])
	})
	q.mu.Lock()
	defer q.mu.Unlock()
	if d.Redelivered && q.has[l.id] {
		return
	}
	q.has[l.id] = true
	q.all = append(q.all, l)
}

// landingEvents are the history of what landed. Each message is delivered by one relay the first time it lands, which is where
// its order is judged; all further times by another one without a lease, which are counted.
func landingEvents(all []landing) []history.Event {
	const first, further = "broker", "broker again"
	events := []history.Event{{At: 1, Kind: history.LeaseLost, Relay: further}}
	seen := map[string]bool{}
	for _, l := range all {
		e := history.Event{At: l.at, Kind: history.Begun, Relay: first, Destination: "matrix", Message: l.id,
			Seq: l.seq, Topic: l.topic, Key: l.key, Payload: l.payload}
		if seen[l.id] {
			e.Relay = further
		}
		seen[l.id] = true
		end := history.Event{At: l.at, Kind: history.Accepted, Relay: e.Relay, Destination: e.Destination, Message: l.id, Seq: l.seq}
		events = append(events, e, end)
	}
	return events
}
