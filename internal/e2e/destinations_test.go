package e2e

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/outboxrelay/outbox"
	"github.com/outboxrelay/outbox/internal/devservices"
	"github.com/outboxrelay/outbox/internal/devservices/rabbitdev"
)

// TestChaosDestinations: two destinations of one relay, of which one is stopped, alarmed or hangs, or gets what it
// cannot take. The other goes on, nothing is lost, and only a rejection of a message costs the message anything.
func TestChaosDestinations(t *testing.T) {
	if testing.Short() {
		t.Skip("takes a minute")
	}
	rabbit := newRabbit(t)
	for _, c := range []struct {
		name string
		test func(*testing.T, *rabbitdev.Server)
	}{
		{"down", testDown},
		{"alarm", testAlarm},
		{"hang", testHang},
		{"unroutable", testUnroutable},
		{"oversized", testOversized},
		{"line break", testLineBreak},
		{"missing", testMissing},
	} {
		t.Run(c.name, func(t *testing.T) { c.test(t, rabbit) })
	}
}

func newRabbit(t *testing.T) *rabbitdev.Server {
	t.Helper()
	server, err := rabbitdev.Start(t.Context())
	if errors.Is(err, devservices.ErrNotInstalled) && !devservices.ThisMachine().CI() {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { server.Close() })
	if !server.IsPrivate() {
		t.Skip(rabbitdev.ErrExternal)
	}
	return server
}

// outage is how a destination goes down.
type outage struct {
	messages int
	down     time.Duration // half of the messages are published meanwhile
	ratio    float64       // of the other's progress, that it must keep
}

func plannedOutage() outage {
	if os.Getenv(messagesVariable) != "" {
		return outage{20_000, 30 * time.Second, 0.9}
	}
	return outage{4000, 3 * time.Second, 0.7} // a short time has less to even out
}

// supply publishes to both destinations at an even pace. Keys 0 to 49 are in both, 50 to 74 in one, 75 to 99 in the
// other one; payloads count up.
type supply struct {
	b                *brokers
	events, billings int
}

// publish publishes n messages within the time, half of them to each destination, and returns for how long JetStream
// was behind, in relation to that: 1 is never.
func (s *supply) publish(t *testing.T, n int, within time.Duration) (progress float64) {
	t.Helper()
	const portion = 20
	pace := time.NewTicker(within * portion / time.Duration(n))
	defer pace.Stop()
	began := time.Now()
	for range n / portion {
		<-pace.C
		ms := make([]outbox.Message, 0, portion)
		for range portion / 2 {
			ms = append(ms, s.next("events.placed", &s.events, 0), s.next("billing.placed", &s.billings, 25))
		}
		s.b.publish(t, ms...)
	}
	published := time.Since(began)
	until(t, time.Minute, "all of JetStream's part has arrived", func() bool { return s.b.stored(t) >= s.events })
	return float64(published) / float64(time.Since(began))
}

func (s *supply) next(topic string, count *int, gap int) outbox.Message {
	key := *count % 75
	if key >= 50 {
		key += gap
	}
	m := outbox.Message{Topic: topic, Key: "k" + strconv.Itoa(key), Payload: []byte(strconv.Itoa(*count))}
	*count++
	return m
}

// testDown: RabbitMQ is stopped and started again amid the traffic.
func testDown(t *testing.T, rabbit *rabbitdev.Server) {
	b := newBrokers(t, rabbit, newNATS(t), routing{})
	s, o := &supply{b: b}, plannedOutage()
	up := s.publish(t, o.messages/4, o.down/2)
	until(t, time.Minute, "RabbitMQ's part has begun to arrive", func() bool { return len(b.inQueue(t)) > 0 })
	if err := rabbit.Stop(); err != nil {
		t.Fatal(err)
	}
	down := s.publish(t, o.messages/2, o.down)
	t.Logf("JetStream's progress: %.3f while RabbitMQ is up, %.3f while it is down", up, down)
	if down < o.ratio*up {
		t.Errorf("JetStream kept %.2f of its progress, want %.2f", down/up, o.ratio)
	}
	if n := b.db.count(t.Context(), everything); n < s.billings/2 {
		t.Errorf("%d messages wait: RabbitMQ was not down", n)
	}
	if n := b.db.count(t.Context(), "select count(*) from outbox.waiting where attempts > 0"); n != 0 {
		t.Errorf("%d messages have spent an attempt", n)
	}
	b.wantState(t, billing, outbox.StateUnavailable, "connection refused")
	b.wantState(t, events, outbox.StateAvailable, "")
	if err := rabbit.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.publish(t, o.messages/4, o.down/2)
	b.db.drained(t, 2*time.Minute)
	for msg, most := range map[string]int{"destination is unavailable": 1, "destination is available again": 1} {
		if n := b.relay.says(t, msg, billing); n != most {
			t.Errorf("the log says %d times %q of RabbitMQ", n, msg)
		}
		if n := b.relay.says(t, msg, events); n != 0 {
			t.Errorf("the log says %d times %q of JetStream", n, msg)
		}
	}
	wantInOrder(t, events, b.inStream(t), s.events)
	wantInOrder(t, billing, b.inQueue(t), s.billings)
	b.wantNoFailure(t)
}

// wantInOrder: all of n messages have arrived, those of a key in order; repeated ones do not count.
func wantInOrder(t *testing.T, destination string, all []arrival, n int) {
	t.Helper()
	for _, problem := range misplaced(all, n) {
		t.Errorf("%s: %s", destination, problem)
	}
	if len(all) > n {
		t.Logf("%s: %d messages twice", destination, len(all)-n)
	}
}

func misplaced(all []arrival, n int) (problems []string) {
	latest := map[string]int{}
	seen := make([]bool, n)
	for _, a := range all {
		i, err := strconv.Atoi(a.payload)
		if err != nil || i < 0 || i >= n {
			return []string{fmt.Sprintf("payload %q was never published", a.payload)}
		}
		if !seen[i] && i < latest[a.key] {
			problems = append(problems, fmt.Sprintf("message %d of key %s arrived after %d", i, a.key, latest[a.key]))
		}
		seen[i], latest[a.key] = true, max(latest[a.key], i)
	}
	lost := 0
	for _, s := range seen {
		if !s {
			lost++
		}
	}
	if lost > 0 {
		problems = append(problems, fmt.Sprintf("%d of %d messages are lost", lost, n))
	}
	return problems
}

// TestMisplacedFires: lost, strange and disordered messages are noticed, repeated ones are no problem.
func TestMisplacedFires(t *testing.T) {
	for _, c := range []struct {
		name string
		all  []arrival
		want int
	}{
		{"in order", []arrival{{"t", "a", "0", ""}, {"t", "b", "2", ""}, {"t", "a", "1", ""}}, 0},
		{"repeated", []arrival{{"t", "a", "0", ""}, {"t", "a", "1", ""}, {"t", "a", "0", ""}, {"t", "b", "2", ""}}, 0},
		{"lost", []arrival{{"t", "a", "0", ""}, {"t", "b", "2", ""}}, 1},
		{"disordered", []arrival{{"t", "a", "1", ""}, {"t", "a", "0", ""}, {"t", "b", "2", ""}}, 1},
		{"strange", []arrival{{"t", "a", "3", ""}}, 1},
	} {
		if got := misplaced(c.all, 3); len(got) != c.want {
			t.Errorf("%s: %q", c.name, got)
		}
	}
}
